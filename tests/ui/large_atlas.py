"""An atlas of the size that pages must be quick on: 2 million triggers, or as many as neurons are asked for, and 500,000 sub-updates.

Its numbers are made up, its text is nasty.
Nothing is checked against these numbers; they only have to be as many, and as unlike each other, as real ones.
"""

import json
from itertools import accumulate
from pathlib import Path

import polars as pl

from schema import SCHEMA_VERSION
from schema.build import create_tables, install_derived
from schema.open import store

N_LAYERS, D_FFN, D_MODEL, K = 16, 1250, 8, 50
N_DOCUMENTS, LENGTH, N_TRACED = 200, 1000, 1563

NASTY = [
    " <script>alert(1)</script>", " " + "x" * 200, " שלום", " العالم", " 漢字", " 🙂", " \x07\x1b", "\n", " *a* $x$ :red[r]",
    " <img src=x onerror=alert(2)>",
    " &amp;", " `code` | [link](http://example.org)",
]  # fmt: skip
TOKENS = ["<s>", *NASTY, *(f" word{i}" for i in range(987))]
"""The vocabulary; a text's every seventh token is nasty."""

SQL = """
INSERT INTO neuron BY NAME
SELECT l.range AS layer, n.range AS neuron, 1 + random() AS key_norm, 1 + random() AS gate_norm, 1 + random() AS value_norm,
    random() - 0.5 AS key_value_cosine, random() - 0.5 AS gate_value_cosine, random() / 10 AS value_max_prob,
    (l.range * 31 + n.range) % 1000 AS value_top_token_id
FROM range({n_layers}) AS l, range({d_ffn}) AS n;
INSERT INTO value_token BY NAME
SELECT n.layer, n.neuron, d.d AS direction, r.range + 1 AS rank, (n.layer::BIGINT * 37 + n.neuron::BIGINT * 11 + r.range * 7 + if(d.d = 'promoted',
    0, 500)) % 1000 AS token_id,
    if(d.d = 'promoted', 1, -1) * (5 - r.range / 10) AS score, 0.01 AS prob
FROM neuron AS n, (VALUES ('promoted'), ('suppressed')) AS d(d), range(30) AS r;
INSERT INTO value_neighbour BY NAME
SELECT n.layer, n.neuron, r.range + 1 AS rank, (n.layer + r.range) % {n_layers} AS neighbour_layer,
    (n.neuron + r.range + 1) % {d_ffn} AS neighbour_neuron,
    0.9 - r.range / 50 AS cosine
FROM neuron AS n, range(20) AS r;
INSERT INTO neuron_statistics BY NAME
SELECT 0 AS corpus_id, n.layer, n.neuron, {n_positions} AS n_positions, {n_half} AS n_active, 0.1 AS mean, 1.0 AS std,
    -4.0 AS min, 5.0 AS max,
    [if(b BETWEEN 20 AND 50, 6451, 0) FOR b IN range(68)] AS histogram
FROM neuron AS n;
INSERT INTO trigger BY NAME
SELECT 0 AS corpus_id, n.layer, n.neuron, t.t AS tail, r.range + 1 AS rank,
    (n.layer::BIGINT * 7919 + n.neuron::BIGINT * 104729 + r.range * 1299709 + if(t.t = 'max', 0, 57)) % {n_positions} AS position_id,
    if(t.t = 'max', 1, -1) * (5 - r.range / 20) AS coefficient,
    if(r.range < 20, [((r.range * 7 + i * 31) % 255 - 127)::TINYINT FOR i IN range(least(16, position_id % {length}))], NULL) AS preceding,
    if(r.range < 20, 0.03, NULL) AS preceding_scale
FROM neuron AS n, (VALUES ('max'), ('min')) AS t(t), range({k}) AS r
ORDER BY n.layer, n.neuron, t.t, r.range;
INSERT INTO trace BY NAME
SELECT 2 AS run_id, i.range * 127 AS position_id, (i.range * 13) % 1000 AS final_token_id, 0.4 AS final_prob, 0.1 AS next_token_prob,
    3 AS next_token_rank FROM range({n_traced}) AS i;
CREATE TEMP TABLE place AS SELECT t.position_id, t.final_token_id, l.range AS layer FROM trace AS t, range({n_layers}) AS l;
INSERT INTO logit_lens BY NAME
SELECT p.position_id, p.layer, s.s AS site, 'final_norm' AS projection, if(p.layer > (p.position_id % 13), p.final_token_id,
    (p.position_id + p.layer) % 1000) AS top_token_id,
    0.3 AS top_prob, 0.2 AS final_token_prob, if(p.layer > (p.position_id % 13), 1, 20 - p.layer) AS final_token_rank, 0.1 AS next_token_prob,
    4 AS next_token_rank, 3.0 AS entropy
FROM place AS p, (VALUES ('resid_pre'), ('attn_out'), ('resid_mid'), ('ffn_out'), ('resid_post')) AS s(s);
INSERT INTO logit_lens_token BY NAME
SELECT l.position_id, l.layer, l.site, r.range + 1 AS rank, (l.top_token_id + r.range * 3) % 1000 AS token_id,
    0.3 / (r.range + 1) AS prob FROM logit_lens AS l, range(10) AS r;
INSERT INTO coefficient BY NAME
SELECT p.position_id, p.layer, (p.position_id + r.range * 17) % {d_ffn} AS neuron, 2 - r.range / 20 AS coefficient,
    2 - r.range / 20 AS sub_update_norm FROM place AS p, range(20) AS r;
INSERT INTO layer_activity BY NAME
SELECT p.position_id, p.layer, 600 AS n_active, 100.0 AS sub_update_norm_total, 10.0 AS sub_update_norm_dominant, 1 AS n_agreeing_values,
    1 AS n_agreeing_values_block, 1 AS raw_ffn_token_id, 2 AS raw_block_token_id, 1 AS n_agreeing_values_raw, 0 AS n_agreeing_values_block_raw,
    5 AS candidate_rank_after FROM place AS p;
INSERT INTO sub_update BY NAME
SELECT p.position_id, p.layer, s.s AS selection, r.range + 1 AS rank, (p.position_id + r.range * 17 + if(s.s = 'random', 600,
    0)) % {d_ffn} AS neuron, 2.0 AS coefficient, 2.0 AS sub_update_norm,
    (r.range - 4) / 2 AS candidate_score, (r.range - 3) / 2 AS final_score, (r.range - 5) / 3 AS next_score,
    (r.range - 4) / 8 AS candidate_frozen_score, (r.range - 3) / 8 AS final_frozen_score, (r.range - 5) / 12 AS next_frozen_score
FROM place AS p, (VALUES ('dominant'), ('random')) AS s(s), range(10) AS r;
INSERT INTO residual_state BY NAME
SELECT p.position_id, p.layer, s.s AS site, [random() FOR x IN range({d_model})] AS vector FROM place AS p, (VALUES ('resid_mid'),
    ('resid_post')) AS s(s);
INSERT INTO map_point BY NAME SELECT 3 AS run_id, 'value' AS layout, n.layer, n.neuron, 10 * random() AS x, 8 * random() AS y FROM neuron AS n;
INSERT INTO map_point BY NAME SELECT 4 AS run_id, 'resid_post' AS layout, p.layer, p.position_id, 10 * random() AS x, 8 * random() AS y FROM place AS p;
"""


def write_large_atlas(path: Path, d_ffn: int = D_FFN) -> Path:
    con = store.open_writer(path)
    create_tables(con, D_MODEL)
    install_derived(con)
    model = ("large", "r0", "llama", N_LAYERS, D_MODEL, d_ffn, 2, 2, 4, 1000, "silu", True, False, False, False, "float32", "ff", SCHEMA_VERSION)
    con.execute(f"INSERT INTO model VALUES ({', '.join('?' * len(model))})", model)
    con.executemany("INSERT INTO token VALUES (?, ?, ?, ?, ?, FALSE, FALSE)", [(i, t, t.encode(), i == 0, t.startswith(" ")) for i, t in enumerate(TOKENS)])
    con.execute("INSERT INTO corpus VALUES (0, 'made up', 'all', '{\"context\": 1000}', NULL, 'aa', ?, ?)", [N_DOCUMENTS, N_DOCUMENTS * LENGTH])
    documents, positions = text_rows()
    for name, rows in (("document", documents), ("position", positions)):
        con.register("made", rows.to_arrow())
        con.execute(f"INSERT INTO {name} BY NAME FROM made")
        con.unregister("made")
    con.execute(f"INSERT INTO sequence SELECT range, range, range * {LENGTH}, {LENGTH} FROM range({N_DOCUMENTS})")
    when = "2026-01-02 03:04:05+00"
    for i, (kind, corpus) in enumerate((("weights", None), ("sweep", 0), ("trace", 0), ("map", None), ("map", None))):
        con.execute("INSERT INTO run VALUES (?, ?, ?, '{}', '{}', 0, 'cpu', 1, ?, ?, 'finished')", [i, kind, corpus, when, when])
        con.execute("INSERT INTO shard VALUES (?, 0, '{}', 'cc', 'host:1', ?)", [i, when])
    sizes = {"n_layers": N_LAYERS, "d_ffn": d_ffn, "d_model": D_MODEL, "k": K, "n_documents": N_DOCUMENTS, "length": LENGTH, "n_traced": N_TRACED}
    sizes |= {"n_positions": N_DOCUMENTS * LENGTH, "n_half": N_DOCUMENTS * LENGTH // 2}
    for statement in SQL.format(**sizes).split(";\n"):
        if statement.strip():
            con.execute(statement)
    con.execute("CHECKPOINT")
    con.close()
    return path


def text_rows() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Documents whose text is that of their tokens one after the other."""
    documents, positions = [], []
    for d in range(N_DOCUMENTS):
        ids = [(i // 7) % len(NASTY) + 1 if i % 7 == 0 else len(NASTY) + 1 + (i * i + d * 53) % 987 for i in range(LENGTH)]
        ends = list(accumulate(len(TOKENS[t]) for t in ids))
        documents.append(
            {"document_id": d, "corpus_id": 0, "name": f"<b>{d}</b>.txt", "metadata": json.dumps({"year": 1790 + d}), "text": "".join(TOKENS[t] for t in ids)}
        )
        for i, (token, end) in enumerate(zip(ids, ends, strict=True)):
            following = ids[i + 1] if i + 1 < LENGTH else None
            positions.append((d * LENGTH + i, d, i, token, following, end - len(TOKENS[token]), end))
    columns = ["position_id", "sequence_id", "index", "token_id", "next_token_id", "char_start", "char_end"]
    return pl.DataFrame(documents), pl.DataFrame(positions, schema=columns, orient="row")
