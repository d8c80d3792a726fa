"""One check for each table: what is published against the brute-force reference."""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import torch
from torch import Tensor

from schema.terms import histogram_edges
from tests.exact.near import check_counts, check_ranking, check_ranks, check_top, close
from tests.exact.published import Published, Rows
from tests.exact.reference import SITES, Activations, Cut, Reference, Text, entropy, token_bytes

ID_STEP = 2**40
FIRST_WORDS = {"the", "of", "and", "a", "in", "to", "is", "that"}


@dataclass
class Case:
    """A published atlas, what its numbers should be, and how far rounding may take them.

    rounding: error of a float32 forward pass relative to the largest coefficient of a neuron, or to the spread of logits.
    projected: neurons of every layer whose projections onto the vocabulary and neighbours are computed anew (all of a big model would take long).
    """

    published: Published
    reference: Reference
    tokenizer: object
    texts: list[Text]
    cut: Cut
    activations: Activations
    settings: dict[str, object]
    rounding: float
    projected: np.ndarray
    name: str
    corpus_id: int = 0
    worst: dict[str, float] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)

    @property
    def n_layers(self) -> int:
        return self.reference.n_layers

    @property
    def d_ffn(self) -> int:
        return self.activations.coefficients[0].shape[1]

    @property
    def d_vocab(self) -> int:
        return len(self.reference.embedding)

    @property
    def base(self) -> int:
        return self.corpus_id * ID_STEP

    @property
    def traced(self) -> np.ndarray:
        """position_id of the traced positions, ascending."""
        return self.base + self.activations.kept

    @property
    def next_ids(self) -> np.ndarray:
        """Following token of the traced positions, -1 at the end of a document."""
        return self.cut.next_token_ids[self.activations.kept]

    def corpus_rows(self, table: str) -> Rows:
        return self.published.table(table, f"corpus_id = {self.corpus_id}")

    def traced_rows(self, table: str, more: str = "true") -> Rows:
        return self.published.table(table, f"position_id >= {self.base} AND position_id < {self.base + ID_STEP} AND {more}")

    def close(self, name: str, got: np.ndarray, want: np.ndarray | Tensor, tolerance: float, floor: object = 0.0) -> None:
        error = close(f"{self.name} {name}", got, np.asarray(want), tolerance, np.asarray(floor))
        self.worst[name] = max(error, self.worst.get(name, 0.0))

    def count(self, name: str, n: int) -> None:
        """Note how many places made use of a near-tie."""
        self.worst[f"near-ties: {name}"] = self.worst.get(f"near-ties: {name}", 0) + n

    def site(self, site: str, layer: int) -> Tensor:
        return self.activations.sites[site][layer]

    def lens(self, site: str, layer: int) -> np.ndarray:
        return self.reference.lens(self.site(site, layer)).numpy()

    def kept_coefficients(self, layer: int) -> np.ndarray:
        return self.activations.coefficients[layer][self.activations.kept].astype(np.float64)

    def sub_update_norms(self, layer: int) -> np.ndarray:
        m = torch.from_numpy(self.kept_coefficients(layer))
        return (m.abs() * self.reference.values(layer).norm(dim=1) * self.reference.ffn_scale(layer, m)).numpy()

    def coefficient_size(self, layer: int) -> np.ndarray:
        """Largest |m| of every neuron, [d_ffn]: what rounding is measured against."""
        return np.abs(self.activations.coefficients[layer]).max(0).astype(np.float64) + 1e-6


def spread(scores: np.ndarray) -> np.ndarray:
    """Size of each row's scores, for rounding: [rows, 1]."""
    return np.abs(scores).max(1, keepdims=True) + 1e-9


def blocks(rows: Rows, column: str, *shape: int) -> np.ndarray:
    """A column in the order of its grain, folded."""
    return rows[column].reshape(*shape)


def equal(name: str, got: np.ndarray, want: object) -> None:
    want = np.broadcast_to(np.asarray(want), np.shape(got))
    same = (got == want) | ((got != got) & (want != want))
    assert same.all(), f"{name}: {np.sum(~same)} of {same.size} differ; first {got[~same][0]!r} where {want[~same][0]!r} is expected"


def check_model(c: Case) -> None:
    model, config, family = c.published.table("model"), c.reference.config, c.reference.family
    assert len(model) == 1
    heads = config.num_attention_heads
    head = c.reference.hf.get_output_embeddings().weight
    d_vocab, d_model = head.shape
    expected = {
        "name": c.settings["model_name"], "model_type": config.model_type, "n_layers": c.n_layers, "d_model": d_model, "d_ffn": c.d_ffn,
        "n_heads": heads, "n_kv_heads": getattr(config, "num_key_value_heads", heads), "d_head": getattr(config, "head_dim", None) or d_model // heads,
        "d_vocab": d_vocab, "activation": getattr(config, family.activation), "is_gated": family.gate is not None, "is_parallel": family.is_parallel,
        "is_ffn_output_normed": family.after_norm is not None, "is_tied": bool(config.tie_word_embeddings), "dtype": "float32", "schema_version": 4,
    }  # fmt: skip
    assert {column: model[column][0] for column in expected} == expected
    assert re.fullmatch("[0-9a-f]{64}", model["weights_sha256"][0])
    assert model["revision"][0] == model["weights_sha256"][0][:12]


def check_model_facts(c: Case) -> None:
    found, config, family = c.published.table("model_fact"), c.reference.config, c.reference.family
    layers = [None if layer is None or layer != layer else int(layer) for layer in found["layer"]]
    of_all = {fact: value for fact, value, layer in zip(found["fact"], found["value"], layers, strict=True) if layer is None}
    n_said = Counter(found["fact"])
    assert all(n_said[fact] == (1 if fact in of_all else c.n_layers) for fact in n_said)
    backbone = of_all["stream.backbone"]
    said = {name: f"{backbone}.{of_all[f'stream.{name}']}" for name in ("layers", "final_norm")}
    assert said == {"layers": family.blocks, "final_norm": family.final_norm}
    expected = {
        "attention.write": family.attention, "ffn.read": family.ffn_norm, "ffn.up": family.up, "ffn.gate": family.gate, "ffn.down": family.down,
        "ffn.after_norm": family.after_norm, "ffn.activation": getattr(config, family.activation), "stream.is_parallel": json.dumps(family.is_parallel),
        "stream.residual_multiplier": json.dumps(float(getattr(config, family.residual_multiplier or "", 1.0))),
        "stream.logit_divisor": json.dumps(float(getattr(config, family.logit_divisor or "", 1.0))),
        "attention.n_heads": json.dumps(config.num_attention_heads),
    }  # fmt: skip
    assert {fact: of_all[fact] for fact in expected} == expected
    windows = {layer: value for layer, fact, value in zip(layers, found["fact"], found["value"], strict=True) if fact == "attention.window"}
    kinds = getattr(config, "layer_types", None) or []
    if "sliding_attention" in kinds:
        assert windows == {layer: "8" if kind == "sliding_attention" else None for layer, kind in enumerate(kinds)}
    assert set(found["source"]) == {"listed"}
    # every identity was checked, and none holds by more than rounding
    unproven = {fact for fact, identity in zip(found["fact"], found["identity"], strict=True) if identity is None}
    assert unproven == {"stream.max_context"}
    assert all(0 <= error < 1e-5 for error, identity in zip(found["error"], found["identity"], strict=True) if identity is not None)


def is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def in_words(raw: bytes) -> str:
    """Bytes as text, those between the longest beginning and the longest end that are whole characters in hexadecimal."""
    n = len(raw)
    if is_text(raw):
        return raw.decode()
    start = max(i for i in range(n) if is_text(raw[:i]))
    end = min(i for i in range(start + 1, n + 1) if is_text(raw[i:]))
    return f"{raw[:start].decode()}⟨{' '.join(f'{byte:02X}' for byte in raw[start:end])}⟩{raw[end:].decode()}"


def check_tokens(c: Case) -> None:
    rows = c.published.table("token")
    d_vocab = len(c.reference.embedding)
    equal("token_id", rows["token_id"], np.arange(d_vocab))
    names, special = {i for i in c.tokenizer.get_vocab().values() if i < d_vocab}, set(c.tokenizer.all_special_ids)
    special |= {i for i, token in c.tokenizer.added_tokens_decoder.items() if token.special}
    for i in range(d_vocab):
        found = {column: rows[column][i] for column in ("text", "bytes", "is_special", "starts_word", "is_stop_word", "is_punctuation")} if i < 600 else None
        if found is None:
            continue
        if i not in names:
            assert found == {"text": f"[unused {i}]", "bytes": None, "is_special": True, "starts_word": False, "is_stop_word": False, "is_punctuation": False}
            continue
        if i in special:
            name = c.tokenizer.convert_ids_to_tokens(i)
            assert (found["text"], found["bytes"], found["is_special"]) == (name, name.encode(), True)
            continue
        raw = token_bytes(c.tokenizer, i)
        text = in_words(raw)
        word = text.strip()
        assert (found["text"], found["bytes"], found["is_special"]) == (text, raw, False)
        assert found["starts_word"] == bool(re.match(r"\s+[^\W_]", text)), text
        if word.lower() in FIRST_WORDS:
            assert found["is_stop_word"], text
        if not word or any(character.isdigit() for character in word) or len(word) > 12:
            assert not found["is_stop_word"], text
        if word and word.isascii():
            assert found["is_punctuation"] == (not any(character.isalnum() or ord(character) < 32 or ord(character) == 127 for character in word)), text


def check_corpus(c: Case) -> None:
    corpus = c.corpus_rows("corpus")
    assert len(corpus) == 1
    assert corpus["corpus_id"][0] == c.corpus_id
    assert (corpus["name"][0], corpus["split"][0], corpus["revision"][0]) == c.settings["corpus"]
    assert (corpus["n_documents"][0], corpus["n_positions"][0]) == (len(c.texts), len(c.cut.token_ids))
    assert re.fullmatch("[0-9a-f]{64}", corpus["sha256"][0])
    source = json.loads(corpus["source"][0])
    assert {name: source[name] for name in ("context", "bos", "cut")} == c.settings["cutting"]


def check_documents(c: Case) -> None:
    rows = c.corpus_rows("document")
    equal("document_id", rows["document_id"], c.base + np.arange(len(c.texts)))
    equal("corpus_id", rows["corpus_id"], c.corpus_id)
    assert list(rows["name"]) == [t.name for t in c.texts]
    assert list(rows["text"]) == [t.text for t in c.texts]
    assert [json.loads(m) for m in rows["metadata"]] == [t.metadata for t in c.texts]


def check_sequences(c: Case) -> None:
    rows = c.published.table("sequence", f"sequence_id >= {c.base} AND sequence_id < {c.base + ID_STEP}")
    equal("sequence_id", rows["sequence_id"], c.base + np.arange(len(c.cut.lengths)))
    equal("document_id", rows["document_id"], c.base + c.cut.document_of)
    equal("first_position_id", rows["first_position_id"], c.base + np.cumsum(c.cut.lengths) - c.cut.lengths)
    equal("n_positions", rows["n_positions"], c.cut.lengths)


def check_positions(c: Case) -> None:
    rows = c.traced_rows("position")
    equal("position_id", rows["position_id"], c.base + np.arange(len(c.cut.token_ids)))
    equal("sequence_id", rows["sequence_id"], c.base + c.cut.sequence)
    equal("index", rows["index"], c.cut.index)
    equal("token_id", rows["token_id"], c.cut.token_ids)
    equal("next_token_id", rows["next_token_id"].astype(float), np.where(c.cut.next_token_ids < 0, np.nan, c.cut.next_token_ids))
    equal("char_start", rows["char_start"], c.cut.char_starts)
    equal("char_end", rows["char_end"], c.cut.char_ends)
    read = c.published.rows(f"SELECT text FROM prefix WHERE position_id >= {c.base} AND position_id < {c.base + ID_STEP} ORDER BY position_id")
    equal("text before", np.array(read)[:, 0], prefixes(c))


def prefixes(c: Case) -> np.ndarray:
    """What the model had read at every position."""
    first = np.cumsum(c.cut.lengths) - c.cut.lengths
    document = c.cut.document_of[c.cut.sequence]
    starts = c.cut.char_starts[first[c.cut.sequence]]
    return np.array([c.texts[d].text[s:e] for d, s, e in zip(document, starts, c.cut.char_ends, strict=True)])


def check_runs(c: Case) -> None:
    rows, shards = c.published.table("run"), c.published.table("shard")
    equal("run_id", rows["run_id"], np.arange(len(rows)))
    kinds = rows["kind"].tolist()
    first = [kinds.index(kind) for kind in ("weights", "sweep", "trace")]
    assert first == sorted(first) and not first[0]
    equal("corpus_id", rows["corpus_id"].astype(float)[first], [np.nan, 0, 0])
    assert set(rows["status"]) == {"finished"}
    assert set(rows["device"]) == {"cpu"}
    assert set(rows["seed"]) == {c.settings["seed"]}
    for i, wanted in zip(first, c.settings["run_settings"], strict=True):
        stored = json.loads(rows["settings"][i])
        assert {name: stored.get(name) for name in wanted} == wanted
        assert {"python", "torch", "transformers", "duckdb", "activation-atlas"} <= set(json.loads(rows["versions"][i]))
    now = np.datetime64(datetime.now(UTC).replace(tzinfo=None))
    assert (rows["started_at"] <= rows["finished_at"]).all()
    assert (rows["finished_at"].astype("datetime64[us]") <= now).all()
    assert (shards["committed_at"].astype("datetime64[us]") <= now).all()
    place = list(zip(shards["run_id"].tolist(), shards["shard_id"].tolist(), strict=True))
    assert place == [(run, shard) for run, n in enumerate(rows["n_shards"]) for shard in range(n)]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in shards["sha256"])
    assert all(re.fullmatch(r".+:\d+", worker) for worker in shards["worker"])
    of_kind = {kind: [json.loads(n) for n, (run, _) in zip(shards["n_rows"], place, strict=True) if rows["kind"][run] == kind] for kind in set(rows["kind"])}
    for kind, tables in {
        "weights": ("neuron", "value_token", "value_neighbour"),
        "sweep": ("document", "sequence", "position"),
        "trace": ("trace", "residual_state", "logit_lens", "logit_lens_token", "coefficient", "layer_activity", "sub_update"),
    }.items():
        for table in tables:
            assert sum(n.get(table, 0) for n in of_kind[kind]) == c.published.rows(f"SELECT count(*) FROM {table}")[0][0], table
    equal("statistics of every shard", np.array([n["neuron_statistics"] for n in of_kind["sweep"]]), c.n_layers * c.d_ffn)


def check_neurons(c: Case) -> None:
    rows, r = c.published.table("neuron"), c.reference
    equal("layer", blocks(rows, "layer", c.n_layers, c.d_ffn), np.arange(c.n_layers)[:, None])
    equal("neuron", blocks(rows, "neuron", c.n_layers, c.d_ffn), np.arange(c.d_ffn))
    for layer in range(c.n_layers):
        one, keys, gates, values = rows.where(layer=layer), r.keys(layer), r.gates(layer), r.values(layer)
        nothing = np.full(c.d_ffn, np.nan)
        for name, vectors in (("key", keys), ("gate", gates)):
            norm = nothing if vectors is None else vectors.norm(dim=1)
            cosine = nothing if vectors is None else (vectors * values).sum(1) / norm / values.norm(dim=1)
            c.close(f"{name}_norm", one[f"{name}_norm"].astype(float), norm, 1e-5)
            c.close(f"{name}_value_cosine", one[f"{name}_value_cosine"].astype(float), cosine, 1e-5, 0.1)
        c.close("value_norm", one["value_norm"], values.norm(dim=1), 1e-5)
        scores = (values[c.projected] @ r.embedding.T).numpy()
        c.close("value_max_prob", one["value_max_prob"][c.projected], torch.from_numpy(scores).softmax(1).max(1).values, 1e-4)
        c.count("value_top_token_id", check_top("value_top_token_id", one["value_top_token_id"][c.projected], scores, 1e-6 * spread(scores)))


def check_value_tokens(c: Case) -> None:
    for layer in range(c.n_layers):
        scores = (c.reference.values(layer)[c.projected] @ c.reference.embedding.T).numpy()
        probs = torch.from_numpy(scores).softmax(1).numpy()
        for direction, sign in (("promoted", 1), ("suppressed", -1)):
            rows = c.published.table("value_token", f"layer = {layer} AND direction = '{direction}'")
            equal("direction", rows["direction"], direction)
            equal("layer", rows["layer"], layer)
            equal("neuron", blocks(rows, "neuron", c.d_ffn, 30), np.arange(c.d_ffn)[:, None])
            equal("rank", blocks(rows, "rank", c.d_ffn, 30), np.arange(1, 31))
            ids, stored = (blocks(rows, column, c.d_ffn, 30)[c.projected] for column in ("token_id", "score"))
            c.count(f"value_token {direction}", check_ranking(f"{c.name} {direction}", ids, sign * stored, sign * scores, 1e-6 * spread(scores)))
            c.close("value_token score", stored, np.take_along_axis(scores, ids, 1), 1e-5, spread(scores))
            c.close("value_token prob", blocks(rows, "prob", c.d_ffn, 30)[c.projected], np.take_along_axis(probs, ids, 1), 1e-4)


def check_value_neighbours(c: Case) -> None:
    values = torch.cat([c.reference.values(layer) for layer in range(c.n_layers)])
    unit = values / values.norm(dim=1, keepdim=True)
    for layer in range(c.n_layers):
        rows = c.published.table("value_neighbour", f"layer = {layer}")
        equal("layer", rows["layer"], layer)
        equal("neuron", blocks(rows, "neuron", c.d_ffn, 20), np.arange(c.d_ffn)[:, None])
        equal("rank", blocks(rows, "rank", c.d_ffn, 20), np.arange(1, 21))
        ids = blocks(rows, "neighbour_layer", c.d_ffn, 20).astype(np.int64) * c.d_ffn + blocks(rows, "neighbour_neuron", c.d_ffn, 20)
        ids, stored = ids[c.projected], blocks(rows, "cosine", c.d_ffn, 20)[c.projected]
        cosines = (unit[layer * c.d_ffn + c.projected] @ unit.T).numpy()
        cosines[np.arange(len(ids)), layer * c.d_ffn + c.projected] = -np.inf
        c.count("value_neighbour", check_ranking(f"{c.name} value_neighbour", ids, stored, cosines, 1e-6))
        c.close("value_neighbour cosine", stored, np.take_along_axis(cosines, ids, 1), 1e-5, 0.1)


def counted_positions(c: Case) -> np.ndarray:
    """Numbers of the positions that the sweep counts."""
    return np.flatnonzero(c.cut.index >= c.settings["skip_first"])


def check_statistics(c: Case) -> None:
    rows, counted = c.corpus_rows("neuron_statistics"), counted_positions(c)
    n = len(counted)
    equal("corpus_id", rows["corpus_id"], c.corpus_id)
    equal("layer", blocks(rows, "layer", c.n_layers, c.d_ffn), np.arange(c.n_layers)[:, None])
    equal("neuron", blocks(rows, "neuron", c.n_layers, c.d_ffn), np.arange(c.d_ffn))
    equal("n_positions", rows["n_positions"], n)
    edges = np.array(histogram_edges())
    for layer in range(c.n_layers):
        one, m, size = rows.where(layer=layer), c.activations.coefficients[layer][counted].astype(np.float64), c.coefficient_size(layer)
        mean = m.sum(0) / n
        std = np.sqrt(((m - mean) ** 2).sum(0) / n)
        c.close("mean", one["mean"], mean, c.rounding, size)
        c.close("std", one["std"], std, c.rounding, size)
        c.close("min", one["min"], m.min(0), 1e-4, 1e-2 * size)
        c.close("max", one["max"], m.max(0), 1e-4, 1e-2 * size)
        off = c.rounding * size
        exact = (m == 0).sum(0)
        lowest, highest = (m > off).sum(0), (m > -off).sum(0) - exact
        check_counts(f"{c.name} n_active", one["n_active"], lowest, highest)
        c.count("n_active", int((one["n_active"] != (m > 0).sum(0)).sum()))
        check_histogram(c, one["histogram"], m, off, edges)


def bin_of(m: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The number of edges that lie at or below m (below it for a negative m)."""
    bins = np.searchsorted(edges, m, side="right")
    return bins - ((m < 0) & (edges[bins - 1] == m))


def check_histogram(c: Case, stored: np.ndarray, m: np.ndarray, off: np.ndarray, edges: np.ndarray) -> None:
    """Counts are those of m, but for coefficients that rounding may carry over an edge; zero is exact."""
    off = np.where(m == 0, 0, off)
    low, own, high = bin_of(m - off, edges), bin_of(m, edges), bin_of(m + off, edges)

    def counted(bins: np.ndarray, among: np.ndarray | bool = True) -> np.ndarray:
        """How often each bin occurs in each column; one more bin takes what lies beyond."""
        flat = (bins + np.arange(bins.shape[1]) * (len(edges) + 1))[np.broadcast_to(among, bins.shape)]
        return np.bincount(flat, minlength=bins.shape[1] * (len(edges) + 1)).reshape(bins.shape[1], -1)

    equal("histogram total", stored.sum(1), len(m))
    reached = np.cumsum(counted(low) - counted(high + 1), axis=1)
    check_counts(f"{c.name} histogram", stored, counted(low, low == high)[:, :-1], reached[:, :-1])
    c.count("histogram", int((stored != counted(own)[:, :-1]).sum()))


def check_triggers(c: Case) -> None:
    counted = counted_positions(c)
    k = min(c.settings["triggers"], len(counted))
    for layer in range(c.n_layers):
        scores = c.activations.coefficients[layer].T.astype(np.float64)
        size = c.coefficient_size(layer)[:, None]
        for tail, sign in (("max", 1), ("min", -1)):
            rows = c.published.table("trigger", f"corpus_id = {c.corpus_id} AND layer = {layer} AND tail = '{tail}'")
            equal("corpus_id", rows["corpus_id"], c.corpus_id)
            equal("layer", rows["layer"], layer)
            equal("tail", rows["tail"], tail)
            equal("neuron", blocks(rows, "neuron", c.d_ffn, k), np.arange(c.d_ffn)[:, None])
            equal("rank", blocks(rows, "rank", c.d_ffn, k), np.arange(1, k + 1))
            equal("context of a list that keeps all", np.isnan(rows["context"].astype(float)), True)
            ids, stored = blocks(rows, "position_id", c.d_ffn, k) - c.base, blocks(rows, "coefficient", c.d_ffn, k)
            among = np.searchsorted(counted, ids)
            equal("trigger at an index that counts", counted[np.minimum(among, len(counted) - 1)], ids)
            swapped = check_ranking(f"{c.name} layer {layer} {tail}", among, sign * stored, sign * scores[:, counted], c.rounding * size, equal_may_swap=True)
            c.count("trigger", swapped)
            c.close("trigger coefficient", stored, np.take_along_axis(scores, ids, 1), 1e-4, 1e-2 * size)
            check_preceding(c, rows, scores, ids, size)


def check_preceding(c: Case, rows: Rows, scores: np.ndarray, ids: np.ndarray, size: np.ndarray) -> None:
    """The coefficients at up to 16 tokens before each of the first 20 triggers, to half a level; scores: [d_ffn, n_positions], ids: [d_ffn, k]."""
    k = ids.shape[1]
    first = np.broadcast_to(np.arange(k) < 20, ids.shape)
    flat, lengths = rows.lists("preceding")
    scales = blocks(rows, "preceding_scale", c.d_ffn, k).astype(np.float64)
    equal("preceding_scale is null", np.isnan(scales), ~first)
    n_before = np.minimum(c.cut.index[ids], 16)
    equal("length of preceding", lengths.reshape(ids.shape), np.where(first, n_before, np.nan))
    neuron, rank = np.nonzero(first)
    position, n, scale = ids[neuron, rank], n_before[neuron, rank], scales[neuron, rank]
    # the place of each stored level: its row, and how many tokens before the trigger
    row = np.repeat(np.arange(len(n)), n)
    back = n[row] - (np.arange(len(row)) - np.repeat(np.cumsum(n) - n, n))
    want = scores[neuron[row], position[row] - back]
    rounding = 1e-4 * size[neuron, 0]
    assert (np.abs(flat * scale[row] - want) <= scale[row] / 2 + rounding[row]).all()
    largest = np.zeros(len(n))
    np.maximum.at(largest, row, np.abs(want))
    assert (np.abs(scale * 127 - largest) <= rounding).all()


def next_probs(c: Case, logits: np.ndarray) -> np.ndarray:
    """Probability of the following token, NaN where there is none."""
    probs = torch.from_numpy(logits).softmax(1).numpy()
    return np.where(c.next_ids < 0, np.nan, probs[np.arange(len(probs)), c.next_ids])


def check_next(c: Case, name: str, rows: Rows, logits: np.ndarray) -> None:
    has_next = c.next_ids >= 0
    c.close(f"{name} next_token_prob", rows["next_token_prob"].astype(float), next_probs(c, logits), 1e-3, 1e-7)
    equal("next_token_rank is null", np.isnan(rows["next_token_rank"].astype(float)), ~has_next)
    ranks = rows["next_token_rank"].astype(float)[has_next].astype(int)
    tie = c.rounding * spread(logits[has_next])
    c.count(f"{name} next_token_rank", check_ranks(f"{c.name} {name} next_token_rank", ranks, logits[has_next], c.next_ids[has_next], tie))


def check_trace(c: Case) -> None:
    rows, own = c.traced_rows("trace"), c.activations.logits.numpy()
    equal("position_id", rows["position_id"], c.traced)
    kinds = dict(c.published.rows("SELECT run_id, kind || corpus_id FROM run"))
    assert {kinds[run] for run in rows["run_id"]} == {f"trace{c.corpus_id}"}
    final = rows["final_token_id"]
    check_top(f"{c.name} final_token_id", final, own, c.rounding * spread(own))
    c.close("final_prob", rows["final_prob"], torch.from_numpy(own).softmax(1).numpy()[np.arange(len(own)), final], 1e-3)
    check_next(c, "trace", rows, own)


def check_final_logits(c: Case) -> None:
    """The lens at the last resid_post is the model's own prediction; the stored numbers of both tables are the same."""
    own = c.activations.logits.softmax(1).numpy()
    last = c.traced_rows("logit_lens_token", f"layer = {c.n_layers - 1} AND site = 'resid_post'")
    ids = blocks(last, "token_id", len(own), 10)
    c.close("last lens is the model", blocks(last, "prob", len(own), 10), np.take_along_axis(own, ids, 1), 1e-3, 1e-7)
    lens, trace = c.traced_rows("logit_lens", f"layer = {c.n_layers - 1} AND site = 'resid_post'"), c.traced_rows("trace")
    equal("last top is the prediction", lens["top_token_id"], trace["final_token_id"])
    equal("prediction has rank 1", lens["final_token_rank"], 1)
    equal("next rank", lens["next_token_rank"].astype(float), trace["next_token_rank"].astype(float))


def check_residual_states(c: Case) -> None:
    stored = c.settings["vector_sites"]
    rows = c.traced_rows("residual_state")
    assert len(rows) == len(c.traced) * sum(c.n_layers if site != "resid_pre" else 1 for site in stored)
    for site in stored:
        for layer in range(c.n_layers if site != "resid_pre" else 1):
            one = rows.where(layer=layer, site=site)
            equal("position_id", one["position_id"], c.traced)
            want = c.site(site, layer).numpy()
            c.close(f"vector {site}", np.stack(one["vector"]), want, 1e-4, 1e-1 * spread(want))


def check_lens(c: Case) -> None:
    final = c.traced_rows("trace")["final_token_id"]
    assert c.published.rows("SELECT count(*), min(projection), max(projection) FROM logit_lens WHERE projection = 'final_norm'")[0][0] == len(
        c.published.table("logit_lens")
    )
    for layer in range(c.n_layers):
        for site in SITES:
            rows, logits = c.traced_rows("logit_lens", f"layer = {layer} AND site = '{site}'"), c.lens(site, layer)
            probs, each = torch.from_numpy(logits).softmax(1).numpy(), np.arange(len(logits))
            equal("position_id", rows["position_id"], c.traced)
            equal("layer", rows["layer"], layer)
            equal("site", rows["site"], site)
            equal("projection", rows["projection"], "final_norm")
            tie = c.rounding * spread(logits)
            top, name = rows["top_token_id"], f"{c.name} L{layer} {site}"
            c.count(f"lens top {site}", check_top(f"{name} top_token_id", top, logits, tie))
            c.close("top_prob", rows["top_prob"], probs[each, top], 1e-3)
            c.close("final_token_prob", rows["final_token_prob"], probs[each, final], 1e-3, 1e-7)
            c.count("final_token_rank", check_ranks(f"{name} final_token_rank", rows["final_token_rank"], logits, final, tie))
            check_next(c, f"lens {site}", rows, logits)
            c.close("entropy", rows["entropy"], entropy(torch.from_numpy(logits)), 3e-4, 1e-1)


def check_lens_tokens(c: Case) -> None:
    n = len(c.traced)
    for layer in range(c.n_layers):
        for site in SITES:
            rows, logits = c.traced_rows("logit_lens_token", f"layer = {layer} AND site = '{site}'"), c.lens(site, layer)
            probs = torch.from_numpy(logits).softmax(1).numpy()
            equal("position_id", blocks(rows, "position_id", n, 10), c.traced[:, None])
            equal("layer", rows["layer"], layer)
            equal("site", rows["site"], site)
            equal("rank", blocks(rows, "rank", n, 10), np.arange(1, 11))
            ids, stored = blocks(rows, "token_id", n, 10), blocks(rows, "prob", n, 10)
            # of different logits the probabilities may round to the same float, so the order of equal ones is checked on logits alone
            order = stored - np.arange(10) * 1e-12
            c.count("logit_lens_token", check_ranking(f"{c.name} L{layer} {site} tokens", ids, order, logits, c.rounding * spread(logits)))
            c.close("logit_lens_token prob", stored, np.take_along_axis(probs, ids, 1), 1e-3, 1e-7)


def check_coefficients(c: Case) -> None:
    n, k = len(c.traced), min(c.settings["coefficients"], c.d_ffn)
    for layer in range(c.n_layers):
        rows, m, norms = c.traced_rows("coefficient", f"layer = {layer}"), c.kept_coefficients(layer), c.sub_update_norms(layer)
        equal("position_id", blocks(rows, "position_id", n, k), c.traced[:, None])
        equal("layer", rows["layer"], layer)
        ids, stored = blocks(rows, "neuron", n, k), blocks(rows, "sub_update_norm", n, k)
        c.count("coefficient", check_ranking(f"{c.name} layer {layer} coefficients", ids, stored, norms, c.rounding * spread(norms)))
        size = c.coefficient_size(layer)[ids]
        c.close("coefficient", blocks(rows, "coefficient", n, k), np.take_along_axis(m, ids, 1), 1e-4, 1e-2 * size)
        c.close("sub_update_norm", stored, np.take_along_axis(norms, ids, 1), 1e-4, 1e-2 * spread(norms))


def check_sums(c: Case) -> None:
    """All sub-updates of a layer, out of what is stored, sum to the FFN's output (with its bias): needs every coefficient."""
    assert c.settings["coefficients"] >= c.d_ffn
    for layer in range(c.n_layers):
        rows = c.traced_rows("coefficient", f"layer = {layer}")
        n, values = len(c.traced), c.reference.values(layer)
        neurons = torch.from_numpy(blocks(rows, "neuron", n, c.d_ffn).astype(np.int64))
        m, norms = (torch.from_numpy(blocks(rows, name, n, c.d_ffn).astype(np.float64)) for name in ("coefficient", "sub_update_norm"))
        # direction from the sign and the value, length from the stored norm
        updates = torch.sign(m)[..., None] * norms[..., None] * (values / values.norm(dim=1, keepdim=True))[neurons]
        total = (updates.sum(1) + c.reference.ffn_bias(layer)).numpy()
        stored = np.stack(c.traced_rows("residual_state", f"layer = {layer} AND site = 'ffn_out'")["vector"]).astype(np.float64)
        c.close("sum of sub-updates", total, stored, 1e-4, spread(stored))


def check_layer_activity(c: Case) -> None:
    tops = {(site, layer): c.traced_rows("logit_lens", f"layer = {layer} AND site = '{site}'")["top_token_id"] for site in SITES for layer in range(c.n_layers)}
    values = blocks(c.published.table("neuron"), "value_top_token_id", c.n_layers, c.d_ffn)
    for layer in range(c.n_layers):
        rows, m, norms = c.traced_rows("layer_activity", f"layer = {layer}"), c.kept_coefficients(layer), c.sub_update_norms(layer)
        equal("position_id", rows["position_id"], c.traced)
        equal("layer", rows["layer"], layer)
        off = c.rounding * c.coefficient_size(layer)
        check_counts(f"{c.name} n_active", rows["n_active"], (m > off).sum(1), ((m > -off) & (m != 0)).sum(1))
        c.close("sub_update_norm_total", rows["sub_update_norm_total"], norms.sum(1), 1e-4)
        c.close("sub_update_norm_dominant", rows["sub_update_norm_dominant"], np.sort(norms, 1)[:, -10:].sum(1), 1e-4)
        raw = {}
        for column, site in (("raw_ffn_token_id", "ffn_out"), ("raw_block_token_id", "resid_post")):
            scores = (c.site(site, layer) @ c.reference.embedding.T).numpy()
            check_top(f"{c.name} layer {layer} {column}", rows[column], scores, c.rounding * spread(scores))
            raw[site] = rows[column]
        for column, top in (
            ("n_agreeing_values_raw", raw["ffn_out"]), ("n_agreeing_values_block_raw", raw["resid_post"]),
            ("n_agreeing_values", tops["ffn_out", layer]), ("n_agreeing_values_block", tops["resid_post", layer]),
        ):  # fmt: skip
            agrees = values[layer] == top[:, None]
            check_counts(f"{c.name} {column}", rows[column], (agrees & (m > off)).sum(1), (agrees & (m > -off) & (m != 0)).sum(1))
        after = c.lens("resid_post", layer)
        name = f"{c.name} layer {layer} candidate_rank_after"
        c.count("candidate_rank_after", check_ranks(name, rows["candidate_rank_after"], after, tops["resid_mid", layer], c.rounding * spread(after)))


def check_sub_updates(c: Case) -> None:
    n = len(c.traced)
    final = c.traced_rows("trace")["final_token_id"]
    for layer in range(c.n_layers):
        norms, m = c.sub_update_norms(layer), c.kept_coefficients(layer)
        candidate = c.traced_rows("logit_lens", f"layer = {layer} AND site = 'resid_mid'")["top_token_id"]
        scale, values = c.reference.ffn_scale(layer, torch.from_numpy(m)).numpy(), c.reference.values(layer).numpy()
        chosen = {}
        for selection in ("dominant", "random"):
            rows = c.traced_rows("sub_update", f"layer = {layer} AND selection = '{selection}'")
            equal("position_id", blocks(rows, "position_id", n, 10), c.traced[:, None])
            equal("layer", rows["layer"], layer)
            equal("selection", rows["selection"], selection)
            equal("rank", blocks(rows, "rank", n, 10), np.arange(1, 11))
            chosen[selection] = neurons = blocks(rows, "neuron", n, 10)
            stored, own = blocks(rows, "sub_update_norm", n, 10), np.take_along_axis(norms, neurons, 1)
            c.close("sub_update_norm", stored, own, 1e-4, 1e-2 * spread(norms))
            assert (stored[:, 1:] <= stored[:, :-1]).all(), f"{c.name} {selection}: not by length"
            weights = np.take_along_axis(m, neurons, 1)
            c.close("sub_update coefficient", blocks(rows, "coefficient", n, 10), weights, 1e-4, 1e-2 * c.coefficient_size(layer)[neurons])
            updates = (weights * scale)[..., None] * values[neurons]
            lengths = np.linalg.norm(updates, axis=2)
            for column, words in (("candidate_score", candidate), ("final_score", final), ("next_score", c.next_ids)):
                embeddings = c.reference.embedding.numpy()[words]
                scores = np.where(words[:, None] < 0, np.nan, np.einsum("nkd,nd->nk", updates, embeddings))
                floor = np.broadcast_to(lengths.max(1, keepdims=True) * np.linalg.norm(embeddings, axis=1, keepdims=True), scores.shape)
                c.close(column, blocks(rows, column, n, 10).astype(float), scores, 1e-4, 1e-2 * floor)
                frozen = column.replace("_score", "_frozen_score")
                adds, top = frozen_scores(c, updates, words)
                c.close(frozen, blocks(rows, frozen, n, 10).astype(float), adds, 1e-4, 1e-2 * np.broadcast_to(top, adds.shape))
        c.count("dominant", check_ranking(f"{c.name} layer {layer} dominant", chosen["dominant"], np.take_along_axis(norms, chosen["dominant"], 1),
                                          norms, c.rounding * spread(norms)))  # fmt: skip
        drawn = chosen["random"]
        assert ((drawn >= 0) & (drawn < c.d_ffn)).all()
        assert all(len(set(both)) == 20 for both in np.concatenate([chosen["dominant"], drawn], 1).tolist()), "random ones are others, each once"


def frozen_scores(c: Case, updates: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each update [n, k, d_model] adds to the logit of its position's word, one at a time (nan for no word); the largest of each position, [n, 1]."""
    last = c.site("resid_post", -1)
    adds = [
        [c.reference.adds_to_logit(torch.from_numpy(u), int(w), z) if w >= 0 else np.nan for u in of] for of, w, z in zip(updates, words, last, strict=True)
    ]
    found = np.array(adds)
    return found, np.nan_to_num(np.abs(found)).max(1, keepdims=True) + 1e-3


def check_random_choice_is_even(c: Case) -> None:
    """Over many positions and layers the random neurons lie anywhere: their mean place is that of an even draw, within five standard errors."""
    drawn = c.published.table("sub_update").where(selection="random")["neuron"]
    assert abs(drawn.mean() / (c.d_ffn - 1) - 0.5) < 5 * math.sqrt(1 / 12 / len(drawn))


def check_events(c: Case) -> None:
    """The views, over every text, and the question on promotion, over this one, against a plain loop over positions and layers."""
    lens = {(int(p), int(layer), site): row for p, layer, site, *row in c.published.rows(
        "SELECT position_id, layer, site, top_token_id, top_prob, final_token_prob, final_token_rank FROM logit_lens")}  # fmt: skip
    final = dict(c.published.rows("SELECT position_id, final_token_id FROM trace"))
    read = dict(c.published.rows("SELECT t.position_id, p.token_id FROM trace AS t INNER JOIN position AS p ON t.position_id = p.position_id"))
    fall = {(p, layer): rank for p, layer, rank in c.published.rows("SELECT position_id, layer, candidate_rank_after FROM layer_activity")}
    raw = {(p, layer): y for p, layer, y in c.published.rows("SELECT position_id, layer, raw_ffn_token_id FROM layer_activity")}
    scores: dict[tuple, list] = {}
    for p, layer, selection, candidate, last, *frozen in c.published.rows(
        "SELECT position_id, layer, selection, candidate_score, final_score, candidate_frozen_score, final_frozen_score FROM sub_update"
    ):
        scores.setdefault((p, layer, selection), []).append((candidate, last, *frozen))
    saturations, eliminations, changes, table = [], [], [], {}
    for p, w in final.items():
        furthest = None
        for layer in range(c.n_layers):
            mid, ffn, post = (lens[p, layer, site] for site in ("resid_mid", "ffn_out", "resid_post"))
            r, y, o = mid[0], ffn[0], post[0]
            stays = all(lens[p, later, "resid_post"][0] == w for later in range(layer, c.n_layers))
            if r != w and stays and layer < c.n_layers - 1:
                saturations.append((p, layer, w, r, mid[3], mid[2], post[2]))
            if o != r:
                eliminations.append((p, layer, r, o, mid[1], fall[p, layer]))
                furthest = layer if furthest is None or fall[p, layer] > fall[p, furthest] else furthest
            change, raw_change = ("agreement" if o == r == y else "residual" if o == r else "ffn" if o == y else "composition" for y in (y, raw[p, layer]))
            changes.append((p, layer, change, raw_change, r, y, raw[p, layer], o))
        counted = table if p // ID_STEP == c.corpus_id else {}
        for e in [e for e in saturations if e[0] == p]:
            add_event(counted, "saturation", {s: [(last, frozen) for _, last, _, frozen in scores[p, e[1], s]] for s in ("dominant", "random")})
        if furthest is not None:
            add_event(counted, "elimination", {s: [(first, frozen) for first, _, frozen, _ in scores[p, furthest, s]] for s in ("dominant", "random")})
            if lens[p, furthest, "resid_mid"][0] != read[p]:
                add_event(
                    counted,
                    "elimination of another token",
                    {s: [(first, frozen) for first, _, frozen, _ in scores[p, furthest, s]] for s in ("dominant", "random")},
                )
            eliminations = [(*e, e[1] == furthest, e[2] == read[p]) if e[0] == p and len(e) == 6 else e for e in eliminations]
    assert len(changes) == len(final) * c.n_layers
    assert sorted(c.published.rows("SELECT * FROM prediction_change")) == sorted(changes)
    assert sorted(c.published.rows("SELECT * FROM saturation")) == sorted(saturations)
    assert sorted(c.published.rows("SELECT * FROM elimination")) == sorted(eliminations)
    assert min(len(saturations), len(eliminations)) > 0, "a case without events shows nothing"
    found = {(event, selection): row for event, selection, *row in c.published.rows(f"FROM promotion_vs_elimination(corpus := {c.corpus_id})")}
    assert set(found) == set(table)
    for key, events in table.items():
        assert found[key][0] == len(events)
        c.close("promotion_vs_elimination", np.array(found[key][2:]), np.mean(events, 0), 1e-6, 1e-3)


def add_event(table: dict, event: str, by_selection: dict[str, list[tuple[float, float]]]) -> None:
    """Mean, largest and smallest of the raw scores and then of the frozen-norm ones."""
    for selection, both in by_selection.items():
        table.setdefault((event, selection), []).append([number for s in zip(*both, strict=True) for number in (sum(s) / len(s), max(s), min(s))])


CHECKS = (
    check_model, check_model_facts, check_tokens, check_corpus, check_documents, check_sequences, check_positions, check_runs, check_neurons,
    check_value_tokens, check_value_neighbours, check_statistics, check_triggers, check_trace, check_final_logits, check_residual_states, check_lens,
    check_lens_tokens, check_coefficients, check_layer_activity, check_sub_updates, check_random_choice_is_even, check_events,
)  # fmt: skip
"""For every case. `check_sums` needs an atlas with all coefficients."""
