"""What the rules of a sweep keep of a text with a footer in a fifth of its documents: lists and statistics by brute force over all positions.

Sequences are read one by one, as the reference reads them, so that coefficients are equal to the bit and no near-tie is left to rounding.
"""

import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest
import torch

from ingest import drive
from ingest import run as driver
from ingest.recorders.torch_keys import TorchKeys, new_keys
from ingest.request import Request
from ingest.store.shards import Shard
from schema.audits import run_audits
from tests.exact.published import Published
from tests.exact.reference import Reference, cut_texts
from tests.exact.tiny import CONTEXT, TEXTS, Tiny, make, run

torch.set_num_threads(1)

K = 12
FOOTER = " We hold these truths to be self-evident, that all men are created equal."
RULES = {
    "without the first, of distinct texts": {"skip_first": 1, "distinct": 4},
    "without the first": {"skip_first": 1},
    "every position": {},
    "of distinct texts": {"distinct": 16},
    "without the first three": {"skip_first": 3},
}
BOTH = {"skip_first": 1, "distinct": 4}


def documents() -> list[str]:
    """Forty of 1 to 30 words; every fifth ends with the footer."""
    drawn, words = random.Random(2), " ".join(TEXTS).split()
    return [" ".join(drawn.choices(words, k=drawn.randrange(1, 31))) + (FOOTER if i % 5 == 0 else "") for i in range(40)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A gated model with BOS, whose coefficient at index 0 is one number in every sequence."""
    return make(tmp_path_factory.mktemp("lists"), "gemma2", documents())


@pytest.fixture(scope="module")
def wanted(tiny: Tiny) -> Callable[..., dict]:
    """What a rule keeps: (layer, neuron, tail) → [(position_id, coefficient)] best first, and the positions that count."""
    cut = cut_texts(tiny.texts, tiny.tokenizer, CONTEXT, tiny.bos)
    coefficients = Reference(tiny.hf).read(cut, np.zeros(1, np.int64)).coefficients
    sign = {"max": 1, "min": -1}

    def last_tokens(p: int, n: int) -> tuple[int, ...]:
        return tuple(cut.token_ids[p - min(cut.index[p], n - 1) : p + 1].tolist())

    def best(m: np.ndarray, counted: np.ndarray, tail: str, contexts: list) -> list[tuple[int, float]]:
        found: dict = {}
        for p in sorted(counted.tolist(), key=lambda p: (-sign[tail] * m[p], p)):
            found.setdefault(contexts[p], (p, float(m[p])))
        return list(found.values())[:K]

    def rule(skip_first: int = 0, distinct: int = 0) -> dict:
        contexts = [last_tokens(p, distinct) if distinct else p for p in range(len(cut.index))]
        counted = np.flatnonzero(cut.index >= skip_first)
        cells = [(layer, neuron) for layer, m in enumerate(coefficients) for neuron in range(m.shape[1])]
        lists = {(layer, neuron, tail): best(coefficients[layer][:, neuron], counted, tail, contexts) for layer, neuron in cells for tail in sign}
        return {"lists": lists, "n_positions": len(counted), "coefficients": [m[counted] for m in coefficients]}

    return rule


def lists(published: Published) -> dict:
    """As `wanted` has them."""
    sql = "SELECT layer, neuron, tail, list(position_id ORDER BY rank), list(coefficient ORDER BY rank) FROM trigger GROUP BY ALL"
    return {(*key,): list(zip(positions, coefficients, strict=True)) for *key, positions, coefficients in published.rows(sql)}


def asked(tiny: Tiny, target: Path, **rule: object) -> Request:
    return tiny.request(target, trace=0, paper=False, triggers=K, batch_size=1, **rule)


@pytest.mark.ci_cases(2)
@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_lists_and_statistics_are_those_of_the_positions_that_count(tiny: Tiny, wanted: Callable, rule: dict, tmp_path: Path) -> None:
    found, want = Published(run(asked(tiny, tmp_path / "a.duckdb", **rule))), wanted(**rule)
    assert lists(found) == want["lists"]
    for layer, m in enumerate(want["coefficients"]):
        rows = found.table("neuron_statistics", f"layer = {layer}")
        assert set(rows["n_positions"]) == {want["n_positions"]}
        assert (rows["n_active"] == (m > 0).sum(0)).all()
        assert (rows["min"] == m.min(0)).all() and (rows["max"] == m.max(0)).all()
        np.testing.assert_allclose(rows["mean"], m.astype(float).mean(0), rtol=1e-9, atol=1e-9)
        assert (rows["histogram"].sum(1) == want["n_positions"]).all()
    said = found.rows("SELECT skip_first, distinct_tokens, n_positions FROM swept_corpus")
    assert said == [(rule.get("skip_first", 0), rule.get("distinct", 0), want["n_positions"])]
    assert [each for each in run_audits(found.con) if each.n_rows] == []


@pytest.mark.thorough
def test_the_footer_repeats_in_lists_that_keep_it(wanted: Callable) -> None:
    """Else the lists of distinct texts would be those of all."""
    every, distinct = wanted(skip_first=1)["lists"], wanted(**BOTH)["lists"]
    assert sum(every[key] != distinct[key] for key in every) > len(every) / 4


def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients are counted as on any other device than the processors."""
    keys = lambda model, *rule: TorchKeys([model.layer_device(i) for i in range(model.n_layers)], model.d_ffn, *rule)  # noqa: E731
    monkeypatch.setattr("ingest.recorders.triggers.new_keys", keys)


def without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shard is by a worker that knows of no other."""
    monkeypatch.setattr("ingest.recorders.triggers.kept_keys", lambda worker, run_id, *rule: new_keys(worker.model, *rule))


def shuffled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards are loaded in another order, each by a worker that knows of no other."""
    without_memory(monkeypatch)
    held: list[tuple] = []
    commit, finish = driver.Committer.commit, drive.finish_run

    def release(con: duckdb.DuckDBPyConnection, run_id: int) -> None:
        random.Random(3).shuffle(held)
        while held:
            commit(*held.pop())
        finish(con, run_id)

    monkeypatch.setattr(driver.Committer, "commit", lambda self, shard: held.append((self, shard)))
    monkeypatch.setattr(drive, "finish_run", release)


def by_two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    from ingest.workers import ray_pool

    monkeypatch.setattr(ray_pool, "threads_each", lambda _: 1)


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("way", [by_torch, shuffled, by_two_workers])
def test_the_same_by_other_ways(tiny: Tiny, wanted: Callable, way: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    way(monkeypatch)
    n_workers = 1 + (way is by_two_workers)
    found = Published(run(asked(tiny, tmp_path / "a.duckdb", workers=n_workers, **BOTH)))
    assert found.rows("SELECT n_shards > 5 FROM run WHERE kind = 'sweep'") == [(True,)]
    assert found.rows("SELECT count(DISTINCT s.worker) FROM shard AS s") == [(n_workers,)]
    assert lists(found) == wanted(**BOTH)["lists"]


@pytest.mark.thorough
def test_the_same_after_an_interruption(tiny: Tiny, wanted: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, done = driver.Committer.commit, list[Shard]()

    def interrupted(self: driver.Committer, shard: Shard) -> None:
        if len(done) == 3:
            raise KeyboardInterrupt
        commit(self, shard)
        done.append(shard)

    request = asked(tiny, tmp_path / "a.duckdb", **BOTH)
    with monkeypatch.context() as patched:
        patched.setattr(driver.Committer, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(request)
    assert lists(Published(run(request))) == wanted(**BOTH)["lists"]
