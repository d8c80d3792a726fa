"""What RoPE is averaged over: the distances that heads were seen to look over, or the pairs of a context; and which of them is recorded."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ingest.model.models import Model
from ingest.model.token_states import TokenStates
from ingest.passes import passes
from ingest.passes.base import Basis
from ingest.recorders.circuits import circuit_tables
from ingest.recorders.distances import Distances, distance_settings, read_context
from ingest.recorders.token_circuits import token_circuits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.heads_reference import Heads
from tests.exact.tiny import asked, run
from tests.ingest import token_oracle as oracle
from tests.ingest.attention_oracle import eager_model
from tests.ingest.tiny_models import tiny_hf, tiny_tokenizer

PASS = passes()["circuit"]
SKIP_TRIGRAM = passes()["skip_trigram"]

torch.set_num_threads(1)

BINS = np.array([[5.0, 0.0, 0.0, 2.0, 0.0], [3.0, 0.0, 0.0, 0.0, 0.0]])
"""Of distances 0, 1, 2, 3-4 and 5: a head that looks 3 and 4 back beside itself, and one that looks at itself alone."""


def test_pairs_of_a_context_count_as_often_as_they_lie_so_far_apart() -> None:
    np.testing.assert_allclose(Distances(5).shares(None), [[0, 0.4, 0.3, 0.2, 0.1]])
    np.testing.assert_allclose(Distances(5).shares(3), [[0, 4 / 7, 3 / 7]])
    np.testing.assert_allclose(Distances(5).shares(1), [[1]])


def test_what_a_head_was_seen_to_look_over_counts_by_its_weight_and_its_own_position_does_not() -> None:
    # of sequences of 6 tokens three pairs lie 3 and two lie 4 apart
    np.testing.assert_allclose(Distances(6, ((6, BINS),)).shares(None), [[0, 0, 0, 0.6, 0.4, 0], [0, 5 / 15, 4 / 15, 3 / 15, 2 / 15, 1 / 15]])
    # of a second text the first head has twice the weight at distance 1, in sequences of 3
    other = np.array([[1.0, 4.0, 0.0], [9.0, 0.0, 1.0]])
    np.testing.assert_allclose(Distances(6, ((6, BINS), (3, other))).shares(None), [[0, 4 / 6, 0, 1.2 / 6, 0.8 / 6, 0], [0, 0, 1, 0, 0, 0]])
    # a window ends within a bin
    np.testing.assert_allclose(Distances(6, ((6, BINS),)).shares(4)[0], [0, 0, 0, 1])


@pytest.fixture(scope="module")
def model() -> Model:
    return eager_model("llama", vocab_size=40)


@pytest.fixture(scope="module")
def seen(model: Model) -> Distances:
    return Distances(6, ((6, np.random.default_rng(0).uniform(size=(model.n_heads, 5))),))


def weights(seen: Distances, head: int) -> list[float]:
    """Of the distances 0 to 5: what a bin has, as its pairs lie."""
    _, one, two, far, last = seen.seen[0][1][head]
    return [0, one, two, far * 3 / 5, far * 2 / 5, last]


def test_each_head_composes_over_its_own_distances(model: Model, seen: Distances) -> None:
    heads, norm = Heads(model.hf), np.linalg.norm
    rows = [r for r in circuit_tables(model, 1, TokenStates(model), seen)["composition"].to_pylist() if r["kind"] != "v"]
    assert len(rows) == 2 * model.n_heads**2
    for r in rows:
        turned, writes = heads.qk(1, r["head"], heads.mean_turn(1, weights(seen, r["head"]))), heads.ov(0, r["from_head"])
        read = turned if r["kind"] == "k" else turned.T
        assert r["score_averaged"] == pytest.approx(norm(read @ writes) / norm(read) / norm(writes), rel=1e-4)


def test_each_head_looks_at_tokens_over_its_own_distances(model: Model, seen: Distances) -> None:
    heads, counts = Heads(model.hf), np.arange(40)
    circuits = token_circuits(model, 0, counts, 0, seen)
    for head in range(model.n_heads):
        keys, queries = circuits.factors(head)["qk"]
        expected = oracle.looks(heads, 0, head, counts, weights(seen, head))
        np.testing.assert_allclose(keys @ queries.T, expected, atol=1e-4 * np.abs(expected).max())


def test_a_model_configured_for_a_longer_context_has_the_same_tables() -> None:
    short, long = (eager_model("llama", vocab_size=40, max_position_embeddings=n) for n in (64, 10**9))
    for one, other in zip(*(token_circuits(m, 0, np.ones(40, int), 0, Distances(read_context(m, 16))).factors(0)["qk"] for m in (short, long)), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert (read_context(short, 16), read_context(short, 99)) == (16, 64)
    with pytest.raises(AtlasError, match="--context 99000000: .*float32 tells only 16,777,216"):
        read_context(long, 99_000_000)


GIVEN = {"context": 8, "bos": "never", "batch_size": 2, "shard_positions": 100, "seed": 0}
TEXT = "the first of the people of the world and the last of the people of the union, and the first"


def saved(folder: Path, model_type: str) -> str:
    tiny_hf(model_type).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def runs(target: Path, kind: str) -> dict[int, dict]:
    """Settings by run_id."""
    with open_reader(target) as con:
        found = con.execute("SELECT run_id, settings FROM run WHERE kind = ? ORDER BY run_id", [kind]).fetchall()
    return {run_id: json.loads(of) for run_id, of in found}


@pytest.mark.thorough
def test_a_run_records_its_distances_and_keeps_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, target = saved(tmp_path / "llama", "llama"), tmp_path / "a.duckdb"
    for name, text in (("a", TEXT), ("b", TEXT[::-1])):
        (tmp_path / f"{name}.txt").write_text(text)
    given = GIVEN | {"head_statistics": True, "skip_trigram_seen": 0}
    asked_first = asked(target, folder, str(tmp_path / "a.txt"), **given, circuit=True, skip_trigram=(0,))
    run(asked_first)
    first = runs(target, "head_statistics")
    assert len(first) == 1
    for kind in ("circuit", "skip_trigram"):
        (of,) = runs(target, kind).values()
        assert of["reads"]["attention_distance"] == [*first] and "context" not in of
        assert ("position" in of["reads"]) == (kind == "skip_trigram")
    with open_reader(target) as con:
        basis = Basis(con, eager_model("llama"), asked_first, None)
        assert (PASS.note(basis), SKIP_TRIGRAM.note(basis)) == (None, None)
    run(asked(target, folder, str(tmp_path / "b.txt"), **given))
    both = [*runs(target, "head_statistics")]
    assert len(both) == 2 and "distances" not in capsys.readouterr().err
    with open_reader(target) as con:
        basis = Basis(con, eager_model("llama"), replace(asked_first, options=asked_first.options | {"skip_trigram": (0, 1)}), None)
        assert "the atlas already has circuits with other distances" in PASS.note(basis)
        assert "the skip-trigrams of layer 0 are based on the text and the distances" in SKIP_TRIGRAM.note(basis)
        plans = [*PASS.plans(basis), *SKIP_TRIGRAM.plans(basis)]
        assert [plan.settings["reads"]["attention_distance"] for plan in plans] == [[*first], [*first], both]
        distances = [next(iter(plan.jobs(9, [0]))).arguments["distances"] for plan in plans]
        assert [len(of.seen) for of in distances] == [1, 1, 2]
        looked = con.execute("SELECT head, bin, weight FROM attention_distance WHERE corpus_id = 0 AND layer = 0").fetchall()
        assert {(h, b): distances[0].seen[0][1][h, b] for h, b, _ in looked} == {(h, b): weight for h, b, weight in looked}
        assert [context for context, _ in distances[2].seen] == [8, 8]


def test_without_statistics_the_context_is_recorded_and_a_run_of_neither_is_not_gone_on_with(tmp_path: Path) -> None:
    folder, target = saved(tmp_path / "llama", "llama"), tmp_path / "a.duckdb"
    given = asked(target, folder, None, **GIVEN, circuit=True)
    run(given)
    assert [(of["context"], "reads" in of) for of in runs(target, "circuit").values()] == [(8, False)]
    with open_reader(target) as con:
        # another context changes nothing of what is there
        basis = Basis(con, eager_model("llama"), replace(given, context=16), None)
        (plan,) = PASS.plans(basis)
        (job,) = plan.jobs(1, [1])
        assert (plan.settings["context"], job.arguments["distances"].shares(None).shape) == (8, (1, 8))
        con.execute('CREATE TEMP TABLE run AS SELECT r.* REPLACE (\'{"dtype": "float32"}\' AS settings) FROM main.run AS r')
        (plan,) = PASS.plans(basis)
        with pytest.raises(AtlasError, match="an unfinished run of circuits does not say which distances it used: .* ingest into a new file"):
            list(plan.jobs(1, [1]))
        assert distance_settings(con, eager_model("gpt2"), 8) == {}
