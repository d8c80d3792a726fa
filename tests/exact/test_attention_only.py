"""The attention-only reference models: what the atlas says of two layers that do induction, beside plain attention and the weights by themselves."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

import atlas
from ingest.model.models import wrap
from ingest.model.readers import ERASED, Reader, split_reader_input
from ingest.model.reference import FOLDERS
from ingest.model.reference.probe import probe_rows, read_curve
from ingest.recorders.repeated_tokens import probe_sequences
from schema.audits import run_audits
from schema.open.store import open_reader
from tests.exact.checks import Case
from tests.exact.circuit_checks import check_compositions, check_head_directions, check_head_eigenvalues
from tests.exact.head_checks import check_head_statistics
from tests.exact.heads_reference import Heads
from tests.exact.published import OF_ATTENTION_ALONE, Published
from tests.exact.reference import Reference, Text, cut_texts
from tests.exact.tiny import asked, run
from tests.ingest.head_oracle import eager_patterns, plain_losses
from tests.ingest.term_oracle import mean_losses

torch.set_num_threads(1)

FOLDER = FOLDERS["attention-2l-sotu"]
BLOCK, N_SEQUENCES, DOCUMENT_TOKENS, CONTEXT = 50, 10, 150, 64

CHECKS = (check_head_eigenvalues, check_head_directions, check_compositions, check_head_statistics)


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> Case:
    request = asked(
        tmp_path_factory.mktemp("attention") / "atlas.duckdb", "attention-2l-sotu", "sotu", split="validation", context=CONTEXT, triggers=5, trace=12,
        batch_size=1, shard_positions=700, max_documents=1, document_tokens=DOCUMENT_TOKENS, seed=0,
        circuit=True, attribution=True, head_probe=True, head_statistics=True, term_loss=True,
    )  # fmt: skip
    published, tokenizer = Published(run(request)), AutoTokenizer.from_pretrained(FOLDER)
    reference = Reference(AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32))
    texts = [Text(name, text, {}) for name, text in published.rows("SELECT name, text FROM document ORDER BY document_id")]
    cut = cut_texts(texts, tokenizer, CONTEXT, tokenizer.bos_token_id, DOCUMENT_TOKENS)
    kept = np.array([p for (p,) in published.rows("SELECT position_id FROM trace ORDER BY position_id")], np.int64)
    settings = {"bos": tokenizer.bos_token_id, "cutting": {"context": CONTEXT}}
    return Case(published, reference, tokenizer, texts, cut, reference.read(cut, kept), settings, 1e-6, np.empty(0), "attention")


@pytest.fixture(scope="module")
def hf(c: Case) -> PreTrainedModel:
    return c.reference.hf


@pytest.fixture(scope="module")
def repeats(hf: PreTrainedModel, c: Case) -> list[list[int]]:
    """The tokens of the atlas's probe: BOS and a block twice."""
    rows = [s.token_ids.tolist() for s in probe_sequences(wrap(hf, c.tokenizer, "probed"), "repeat", (0,), 0)]
    assert all(len(row) == 1 + 2 * BLOCK and row[1 : 1 + BLOCK] == row[1 + BLOCK :] for row in rows) and len(rows) == N_SEQUENCES
    return rows


def looked(hf: PreTrainedModel, rows: list[list[int]]) -> dict[str, np.ndarray]:
    """Mean weight on the token after the last copy, in the second block, and on the token before, everywhere: [layer, head]."""
    found = np.mean([eager_patterns(hf, row) for row in rows], axis=0)
    n = len(rows[0])
    return {
        "induction": np.mean([found[:, :, i, i - BLOCK + 1] for i in range(1 + BLOCK, n)], axis=0),
        "previous": np.mean([found[:, :, i, i - 1] for i in range(1, n)], axis=0),
    }


def strongest(scores: np.ndarray) -> tuple[int, int]:
    layer, head = divmod(int(scores.argmax()), scores.shape[1])
    return layer, head


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_is_published_equals_the_brute_force_reference(c: Case, check: Callable[[Case], None]) -> None:
    check(c)


def test_the_logits_of_traced_positions_are_sums_of_what_heads_and_tokens_write(c: Case, hf: PreTrainedModel) -> None:
    sql = """SELECT p.sequence_id, p.index, a.token_id, a.logit, sum(k.final_logit) FROM attribution a JOIN position p USING (position_id)
        JOIN contribution k USING (position_id) WHERE a.target = 'final' AND k.kind IN ('token', 'head', 'constant') GROUP BY ALL"""
    texts = np.split(c.cut.token_ids, np.cumsum(c.cut.lengths)[:-1])
    found = c.published.rows(sql)
    assert len(found) == 12
    for sequence, index, token, logit, summed in found:
        with torch.inference_mode():
            logits = hf(torch.from_numpy(texts[sequence]).long()[None]).logits[0, index]
        assert token == logits.argmax()
        assert logit == pytest.approx(logits.max().item(), abs=1e-4)
        assert summed == pytest.approx(logit, abs=1e-4)


def check_seen(c: Case, table: str) -> None:
    """No column of the table goes unchecked."""
    assert table in OF_ATTENTION_ALONE
    assert {column for column in c.published.columns() if column[0] == table} <= c.published.seen


def test_losses_by_the_number_of_heads_on_a_path_are_those_of_the_model_run_again(c: Case, hf: PreTrainedModel) -> None:
    """One document in three sequences, so that the sample is all of it."""
    rows = c.published.table("term_loss")
    texts = [ids.tolist() for ids in np.split(c.cut.token_ids, np.cumsum(c.cut.lengths)[:-1])]
    followed = [token for text in texts for token in text[1:]]
    wanted = mean_losses(wrap(hf, c.tokenizer, "read"), texts)
    wanted["unigram", None, None] = -np.mean([np.log(followed.count(token) / len(followed)) for token in followed])
    keys = zip(rows["term"], *(np.where(np.isnan(rows[name]), None, rows[name]) for name in ("most_heads", "layer")), strict=True)
    found = dict(zip(keys, rows["loss"].tolist(), strict=True))
    assert found == {term: pytest.approx(loss, abs=1e-4) for term, loss in wanted.items()}
    assert found["paths", 2, None] == pytest.approx(found["model", None, None], abs=1e-3)
    assert found["paths", 0, None] > found["paths", 1, None] > found["paths", 2, None]
    assert (rows["n"] == len(followed)).all() and (rows["corpus_id"] == 0).all()
    check_seen(c, "term_loss")


def test_the_curve_of_the_training_is_the_file_beside_the_weights(c: Case) -> None:
    rows = c.published.table("training_curve")
    for name, wanted in pl.read_json(FOLDER / "curve.json").to_dict(as_series=False).items():
        assert rows[name].tolist() == pytest.approx(wanted, abs=1e-6), name
    check_seen(c, "training_curve")


def test_what_a_head_erases_by_writer_adds_up_to_what_is_stored(c: Case, hf: PreTrainedModel) -> None:
    sql = """SELECT p.sequence_id, p.index, k.layer, k.head, k.erased FROM contribution k JOIN position p USING (position_id)
        WHERE k.kind = 'head' QUALIFY dense_rank() OVER (ORDER BY position_id) <= 2"""
    model, texts = wrap(hf, c.tokenizer, "read"), np.split(c.cut.token_ids, np.cumsum(c.cut.lengths)[:-1])
    found = c.published.rows(sql)
    assert len(found) == 2 * 2 * 4
    for sequence, index, layer, head, erased in found:
        seen = split_reader_input(model, Reader(layer, head, ERASED), torch.from_numpy(texts[sequence][: index + 1]).long())
        assert sum(part.amount for part in seen.parts) == pytest.approx(erased, abs=1e-5)


@pytest.mark.thorough
def test_every_rule_holds_and_every_number_is_finite(c: Case) -> None:
    """FFNs of zeros divide nothing by zero."""
    with closing(open_reader(Path(c.published.rows("SELECT path FROM duckdb_databases() WHERE NOT internal")[0][0]))) as con:
        assert [f.audit.name for f in run_audits(con) if f.n_rows] == []
    floats = c.published.rows("SELECT table_name, column_name FROM duckdb_columns() WHERE data_type IN ('FLOAT', 'DOUBLE') AND schema_name = 'main'")
    tables = {name for (name,) in c.published.rows("SELECT table_name FROM duckdb_tables()")}
    for table, column in floats:
        if table in tables:
            assert c.published.rows(f"SELECT count(*) FROM {table} WHERE NOT isfinite({column})") == [(0,)], (table, column)
    of_zeros = "key_norm = 0 AND gate_norm = 0 AND value_norm = 0 AND key_value_cosine = 0 AND gate_value_cosine = 0"
    assert c.published.rows(f"SELECT count(*) FROM neuron WHERE {of_zeros}") == [(2,)]
    assert c.published.rows("SELECT min(weight), max(weight), min(cosine), max(cosine), count(*) FROM virtual_weight") == [(0, 0, 0, 0, 4)]
    assert c.published.rows("SELECT min(folded_cosine), max(folded_cosine), max(sum_squares) FROM virtual_weight_total") == [(0, 0, 0)]
    assert c.published.rows("SELECT max(norm), max(abs(final_logit)) FROM contribution WHERE kind = 'ffn'") == [(0, 0)]


@pytest.mark.thorough
def test_the_questions_name_the_pairs_that_attention_itself_shows(c: Case, hf: PreTrainedModel, repeats: list[list[int]]) -> None:
    """Every head that does induction reads the one that looks at the token before, and no other pair stands before these."""
    scores, heads = looked(hf, repeats), Heads(hf)
    reader, writer = strongest(scores["induction"]), strongest(scores["previous"])
    inducers = [(int(layer), int(head)) for layer, head in np.argwhere(scores["induction"] > 0.5)]
    assert inducers and {layer for layer, _ in inducers} == {1} and writer[0] == 0
    with atlas.open(c.published.rows("SELECT path FROM duckdb_databases() WHERE NOT internal")[0][0]) as a:
        pairs = a.ask("induction_circuits").head(len(inducers)).to_dicts()
        induction, previous = (a.ask("heads_by", behaviour=name).row(0, named=True) for name in ("induction", "previous"))
    assert {(p["layer"], p["head"], p["from_layer"], p["from_head"]) for p in pairs} == {(*inducer, *writer) for inducer in inducers}
    norm, ov = np.linalg.norm, heads.ov(*writer)
    for pair in pairs:
        qk = heads.qk(pair["layer"], pair["head"])
        assert pair["excess"] == pytest.approx(norm(qk @ ov) / norm(qk) / norm(ov) - heads.d_model**-0.5, abs=1e-5)
    assert ((induction["layer"], induction["head"]), (previous["layer"], previous["head"])) == (reader, writer)
    assert induction["probe"] == pytest.approx(scores["induction"][reader], abs=1e-5)
    assert previous["probe"] == pytest.approx(scores["previous"][writer], abs=1e-5)


@pytest.mark.thorough
def test_the_curve_shows_the_birth_of_what_the_weights_do(hf: PreTrainedModel) -> None:
    """The pair becomes what it is within a few hundred steps, and both its heads together."""
    curve, rows = read_curve(FOLDER), probe_rows(hf.config.vocab_size, 0).tolist()
    scores, losses = looked(hf, rows), plain_losses(hf, rows)
    assert [p.step for p in curve] == list(range(100, 6100, 100))
    last = curve[-1]
    reader, writer = strongest(scores["induction"]), strongest(scores["previous"])
    assert ((last.induction_layer, last.induction_head), (last.previous_layer, last.previous_head)) == (reader, writer)
    assert scores["induction"].max() == pytest.approx(last.induction, abs=0.1) and scores["induction"].max() > 0.5
    assert losses[:, BLOCK:].mean() < 1 < 5 < losses[:, :BLOCK].mean()
    gained = np.array([p.second_block - p.first_block for p in curve])
    born = int(np.flatnonzero(gained < -2)[0])
    assert gained[:5].min() > -0.3 and gained[born + 5 :].max() < -5
    before, after = curve[born - 5], curve[born + 5]
    assert before.induction < 0.2 < 0.5 < after.induction and before.previous < 0.2 < 0.5 < after.previous


def test_one_layer_does_no_induction() -> None:
    folder = FOLDERS["attention-1l-sotu"]
    hf = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    scores = looked(hf, probe_rows(hf.config.vocab_size, 0).tolist())
    assert hf.config.num_hidden_layers == 1
    curve = read_curve(folder)
    assert scores["induction"].max() < 0.05
    assert len(curve) == 60 and max(p.induction for p in curve) < 0.05
