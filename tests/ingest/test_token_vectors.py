"""Word vectors against transformers' own matrices in float64, and the answers of an ingested atlas against numpy."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import atlas
from ingest.model.models import Model
from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.recorders import token_vectors
from ingest.recorders.token_vectors import space_of, space_row, vector_tables
from schema.audits import run_audits
from schema.open.store import open_reader
from tests.exact.heads_reference import without_positions
from tests.exact.tiny import asked, run
from tests.ingest.attention_oracle import eager_model
from tests.ingest.test_run import saved
from tests.ingest.tiny_models import FAMILIES

PASS = passes()["token_vector"]

torch.set_num_threads(1)


def embedded(model: Model, n: int) -> np.ndarray:
    """What enters the first block of each token alone, no learned position: [n, d_model] float64."""
    copy = deepcopy(model.hf).double()
    first = next(m for m in copy.modules() if isinstance(m, nn.ModuleList) and len(m) == copy.config.num_hidden_layers)[0]
    seen: list[torch.Tensor] = []
    first.register_forward_pre_hook(lambda _, args, kwargs: seen.append(args[0] if args else kwargs["hidden_states"]), with_kwargs=True)
    with torch.no_grad(), without_positions(copy):
        copy(torch.arange(n)[:, None], use_cache=False)
    return seen[0][:, 0].numpy()


def by_cosine(vectors: np.ndarray) -> np.ndarray:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def check(space: str, wanted: np.ndarray, model: Model, token_ids: np.ndarray) -> None:
    """wanted: [d_vocab, d_model] float64."""
    found = space_of(model, space, token_ids)
    tables = vector_tables(found, slice(0, len(token_ids)))
    (row,) = space_row(found).to_pylist()
    assert (row["space"], row["n_tokens"]) == (space, len(token_ids))
    np.testing.assert_allclose(row["mean"], wanted[token_ids].mean(0), rtol=1e-5, atol=1e-6)
    vectors, rows = tables["token_vector"].to_pylist(), tables["token_neighbour"].to_pylist()
    assert [(r["space"], r["token_id"]) for r in vectors] == [(space, i) for i in token_ids]
    np.testing.assert_allclose([r["vector"] for r in vectors], wanted[token_ids], rtol=1e-5, atol=1e-6)
    used = wanted[token_ids]
    cosines, raw = by_cosine(used - used.mean(0)), by_cosine(used)
    place = {int(t): i for i, t in enumerate(token_ids)}
    k = token_vectors.N_NEIGHBOURS
    assert [(r["token_id"], r["rank"]) for r in rows] == [(t, rank) for t in token_ids for rank in range(1, k + 1)]
    pairs = [(place[r["token_id"]], place[r["neighbour_token_id"]]) for r in rows]
    assert all(a != b for a, b in pairs) and len(set(pairs)) == len(pairs)
    np.testing.assert_allclose([r["cosine"] for r in rows], [cosines[pair] for pair in pairs], atol=2e-6)
    np.testing.assert_allclose([r["raw_cosine"] for r in rows], [raw[pair] for pair in pairs], atol=2e-6)
    np.fill_diagonal(cosines, -np.inf)
    np.testing.assert_allclose(np.reshape([r["cosine"] for r in rows], (-1, k)), -np.sort(-cosines, axis=1)[:, :k], atol=2e-6)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_vectors_and_neighbours_are_those_of_the_model_s_own_matrices(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_vectors, "CHUNK", 7)
    model = eager_model(model_type)
    # no control tokens, and a hole: what is not text does not compete
    token_ids = np.r_[3:30, 33:60]
    check("input", embedded(model, 60), model, token_ids)
    check("output", model.hf.get_output_embeddings().weight.detach().double().numpy(), model, token_ids)


def test_shards_together_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    space = space_of(eager_model("gpt2"), "input", np.arange(3, 60))
    whole, parts = vector_tables(space, slice(0, 57)), [vector_tables(space, slice(i, i + 20)) for i in range(0, 57, 20)]
    for name, table in whole.items():
        rows = [row for part in parts for row in part[name].to_pylist()]
        assert [{k: v for k, v in row.items() if "cosine" not in k} for row in rows] == [
            {k: v for k, v in row.items() if "cosine" not in k} for row in table.to_pylist()
        ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    return run(asked(folder / "a.duckdb", str(saved(folder / "gpt2", seed=0)), None, token_vectors=True, seed=0))


def test_an_ingest_leaves_control_tokens_out_and_keeps_every_rule(made: Path) -> None:
    with open_reader(made) as con:
        special = con.execute("SELECT count(*) FROM token_vector AS v JOIN token AS k USING (token_id) WHERE k.is_special").fetchall()
        counted = con.execute(
            "SELECT v.space, count(*), any_value(s.n_tokens) FROM token_vector AS v JOIN token_space AS s USING (space) GROUP BY 1"
        ).fetchall()
        n_text = con.execute("SELECT count(*) FROM token WHERE NOT is_special").fetchall()[0][0]
        broken = [found.audit.name for found in run_audits(con) if found.n_rows]
    assert special == [(0,)] and n_text > 20
    # gpt2's matrices are tied: one space
    assert counted == [("input", n_text, n_text)]
    assert not broken


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["add", "add_centred", "multiply"])
def test_analogies_are_those_of_numpy(made: Path, method: str) -> None:
    with atlas.open(made) as a:
        rows = a.sql("SELECT token_id, text, vector::FLOAT[] AS vector FROM token_vector JOIN token USING (token_id) ORDER BY token_id")
        words = [t for t in rows["text"] if t.strip().isalpha()][:9]
        for i in range(0, 9, 3):
            asked_for = words[i : i + 3]
            found = a.analogy(*asked_for, method=method, n=rows.height)
            expected = analogy(rows["text"].to_list(), np.array(rows["vector"].to_list(), np.float64), asked_for, method)
            scores = dict(zip(found["token_id"], found["score"], strict=True))
            assert {t: pytest.approx(s, abs=1e-5) for t, s in zip(rows["token_id"], expected, strict=True) if not np.isnan(s)} == scores
            assert found["rank"].to_list() == list(range(1, found.height + 1)) and found["score"].is_sorted(descending=True)


def analogy(texts: list[str], vectors: np.ndarray, asked_for: list[str], method: str) -> np.ndarray:
    """The score of every token; NaN for the three in any spelling."""
    used = vectors - vectors.mean(0) if method == "add_centred" else vectors
    unit = used / np.linalg.norm(used, axis=1, keepdims=True)
    rows = [texts.index(f" {w.strip()}") if f" {w}" in texts else texts.index(w) for w in asked_for]
    a, b, c = (unit @ unit[row] for row in rows)
    score = ((b + 1) / 2) * ((c + 1) / 2) / ((a + 1) / 2 + 0.001) if method == "multiply" else unit @ (unit[rows[1]] - unit[rows[0]] + unit[rows[2]])
    left_out = {w.strip().lower() for w in asked_for}
    return np.where([t.strip().lower() in left_out for t in texts], np.nan, score)


def test_a_dry_run_counts_the_vocabulary_and_times_a_block() -> None:
    model = eager_model("gpt2")
    probe = CostSample(model, asked("x.duckdb", "m", None, token_vectors=True), None, [])
    assert PASS.rows(probe) == {"token_space": 1, "token_vector": model.d_vocab, "token_neighbour": 20 * model.d_vocab}
    assert PASS.seconds(probe) > 0 and (PASS.n_bytes(probe) or 0) > 8 * model.d_vocab * model.d_model
