"""The same question to the same model and text has one answer, however the work is divided, interrupted or repeated."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ingest import drive
from ingest import run as driver
from ingest.recorders.torch_keys import new_keys
from ingest.store import committer
from ingest.store.shards import Shard
from tests import preloaded
from tests.exact import checks
from tests.exact.near import check_ranking, close
from tests.exact.paper_checks import check_next_token_ranks, check_removal
from tests.exact.published import Published
from tests.exact.reference import Reference, Text, cut_texts
from tests.exact.tiny import D_FFN, TEXTS, Tiny, make, run, write_corpus

torch.set_num_threads(1)

TRACED = 100


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A ReLU model: most of its smallest coefficients are ties at zero, which only the position decides."""
    return make(tmp_path_factory.mktemp("opt"), "opt")


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A gated model with BOS and a norm behind the FFN: its coefficients have two signs."""
    return make(tmp_path_factory.mktemp("gemma2"), "gemma2")


@pytest.fixture(scope="module")
def undisturbed(tiny: Tiny) -> dict[str, tuple]:
    """Checksums of an atlas made in one go."""
    return Published(run(tiny.request(tiny.corpus.parent / "undisturbed.duckdb", trace=TRACED))).checksums()


def triggers(path: Path, n_layers: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """position_id and coefficient, [n_layers, d_ffn, tail (max, min), k]."""
    rows = Published(path).table("trigger")
    shape = (n_layers, D_FFN, 2, -1)
    return rows["position_id"].reshape(shape), rows["coefficient"].reshape(shape)


@pytest.mark.thorough
def test_a_second_atlas_of_the_same_is_the_same_to_the_bit(tiny: Tiny, undisturbed: dict, tmp_path: Path) -> None:
    assert Published(run(tiny.request(tmp_path / "a.duckdb", trace=TRACED))).checksums() == undisturbed


@pytest.mark.thorough
def test_running_the_same_command_again_changes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    request = tiny.request(tmp_path / "a.duckdb", trace=TRACED)
    before = Published(run(request))
    contents = {name: before.table(name).frame for name in ("run", "shard")}
    sums = before.checksums()
    before.con.close()
    after = Published(run(request))
    assert after.checksums() == sums
    for name, frame in contents.items():
        assert after.table(name).frame.equals(frame), name


@pytest.mark.thorough
def test_the_order_in_which_shards_are_loaded_does_not_matter(tiny: Tiny, undisturbed: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[tuple] = []
    commit, finish = driver.Committer.commit, drive.finish_run

    def hold(self: driver.Committer, shard: Shard) -> None:
        held.append((self, shard))

    def release(con: object, run_id: int) -> None:
        random.Random(3).shuffle(held)
        while held:
            commit(*held.pop())
        finish(con, run_id)

    monkeypatch.setattr(driver.Committer, "commit", hold)
    monkeypatch.setattr(drive, "finish_run", release)
    assert Published(run(tiny.request(tmp_path / "a.duckdb", trace=TRACED))).checksums() == undisturbed


@pytest.mark.thorough
def test_workers_that_know_nothing_of_each_other_find_the_same(tiny: Tiny, undisturbed: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.recorders.triggers.kept_keys", lambda worker, run_id, k, *rule: new_keys(worker.model, k, *rule))
    found = Published(run(tiny.request(tmp_path / "a.duckdb", trace=TRACED))).checksums()
    # their shards carry more candidates, which the manifest says
    assert found | {"shard": None} == undisturbed | {"shard": None}


def after_commits(n: int) -> Callable:
    """A commit that is interrupted when n shards are in."""
    commit, done = driver.Committer.commit, []

    def interrupted(self: driver.Committer, *args: object) -> None:
        if len(done) == n:
            raise KeyboardInterrupt
        commit(self, *args)
        done.append(args)

    return interrupted


@pytest.mark.ci_cases(2)
@pytest.mark.thorough
@pytest.mark.parametrize("n", [2, 5, 8, 11])
def test_an_interrupted_run_goes_on_to_the_same_end(tiny: Tiny, undisturbed: dict, n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = tiny.request(tmp_path / "a.duckdb", trace=TRACED)
    with monkeypatch.context() as patched:
        patched.setattr(driver.Committer, "commit", after_commits(n))
        with pytest.raises(KeyboardInterrupt):
            run(request)
    assert not request.target.exists()
    assert Published(run(request)).checksums() == undisturbed


@pytest.mark.ci_cases(3)
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("shard", "is_loaded"),
    [((0, 1), False), ((1, 2), False), ((1, 2), True), ((2, 0), True), ((4, 1), False), ((6, 0), True)],
    ids=[
        "weights, not loaded",
        "sweep, not loaded",
        "sweep, loaded and not removed",
        "trace, loaded and not removed",
        "removal, not loaded",
        "value_cluster, loaded and not removed",
    ],
)
def test_a_run_that_dies_within_a_commit_repeats_and_loses_no_shard(
    tiny: Tiny, undisturbed: dict, shard: tuple[int, int], is_loaded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = tiny.request(tmp_path / "a.duckdb", trace=TRACED)
    load = committer.load_shard

    def dies(con: object, one: object) -> None:
        dying = (one.run_id, one.shard_id) == shard
        if is_loaded or not dying:
            load(con, one)
        if dying:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(committer, "load_shard", dies)
        with pytest.raises(KeyboardInterrupt):
            run(request)
    assert Published(run(request)).checksums() == undisturbed


KILLED = """
import os, signal, sys
from ingest import drive
from ingest import run as driver
from tests.exact.tiny import make, run
from pathlib import Path
import torch
torch.set_num_threads(1)
commit, done = driver.Committer.commit, []
def killed(self, *args):
    commit(self, *args)
    done.append(args)
    if len(done) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
driver.Committer.commit = killed
tiny = make(Path(sys.argv[1]), "opt")
run(tiny.request(Path(sys.argv[2]), trace=100))
"""


@pytest.mark.thorough
def test_a_killed_process_leaves_what_the_next_one_finishes(tmp_path: Path) -> None:
    target, straight = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    done = preloaded.run(KILLED, str(tmp_path), str(target))
    assert done.returncode == -9, done.stderr
    assert not target.exists()
    tiny = make(tmp_path, "opt")
    finished = Published(run(tiny.request(target, trace=TRACED)))
    workers = finished.rows("SELECT DISTINCT worker FROM shard")
    assert len(workers) == 2
    assert finished.checksums() == Published(run(tiny.request(straight, trace=TRACED))).checksums()


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("which", ["tiny", "gated"])
def test_the_size_of_shards_does_not_matter(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """One sequence a batch, so that every forward pass is the same to the bit."""
    tiny = request.getfixturevalue(which)
    small, large = (Published(run(tiny.request(tmp_path / f"{n}.duckdb", trace=0, batch_size=1, shard_positions=n))) for n in (64, 100_000))
    assert small.rows("SELECT n_shards FROM run WHERE kind = 'sweep'")[0][0] > 3
    assert large.rows("SELECT n_shards FROM run WHERE kind = 'sweep'") == [(1,)]
    a, b = small.checksums(), large.checksums()
    same = [name for name in a if name not in ("neuron_statistics", "run", "shard")]
    assert {name: a[name] for name in same} == {name: b[name] for name in same}
    one, other = small.table("neuron_statistics"), large.table("neuron_statistics")
    for column in ("layer", "neuron", "n_positions", "n_active", "min", "max", "histogram"):
        assert np.array_equal(one[column], other[column]), column
    for column in ("mean", "std"):
        close(column, one[column], other[column], 1e-9, 1e-3)


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("which", ["tiny", "gated"])
def test_the_size_of_batches_matters_only_to_ties(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    tiny = request.getfixturevalue(which)
    alone, together = (run(tiny.request(tmp_path / f"{n}.duckdb", trace=0, batch_size=n, shard_positions=100_000)) for n in (1, 64))
    cut = cut_texts(tiny.texts, tiny.tokenizer, 24, tiny.bos)
    (positions, coefficients), read = triggers(together), Reference(tiny.hf).read(cut, np.arange(1))
    for layer in range(3):
        scores = read.coefficients[layer].T.astype(np.float64)
        tie = 1e-5 * np.abs(scores).max(1, keepdims=True)
        for tail, sign in enumerate((1, -1)):
            ids, values = positions[layer, :, tail], coefficients[layer, :, tail]
            check_ranking(f"layer {layer}", ids, sign * values, sign * scores, tie, equal_may_swap=True)
    (others, other_coefficients) = triggers(alone)
    close("coefficient at a rank", coefficients, other_coefficients, 1e-5, np.abs(coefficients).max(-1, keepdims=True))
    assert (positions != others).mean() < 0.02


@pytest.mark.thorough
def test_a_second_corpus_leaves_the_first_as_it_was_and_is_as_exact(gated: Tiny, tmp_path: Path) -> None:
    first = gated.request(tmp_path / "a.duckdb", trace=TRACED)
    before = Published(run(first))
    sums = {name: before.rows(f"SELECT bit_xor(hash(t)) FROM {name} AS t") for name in ("trigger", "neuron_statistics", "logit_lens", "sub_update", "position")}
    before.con.close()
    texts = write_corpus(tmp_path / "other.jsonl", [*TEXTS[3:6], "Of the people, by the people, for the people. " * 5, TEXTS[1]])
    other = replace(gated, corpus=tmp_path / "other.jsonl", texts=texts)
    second = other.request(first.target, trace=40)
    after = Published(run(second))
    old = {"trigger": "corpus_id = 0", "neuron_statistics": "corpus_id = 0"}
    for name, checksum in sums.items():
        rows = f"SELECT * FROM {name} WHERE {old.get(name, f'position_id < {checks.ID_STEP}')}"
        assert after.rows(f"SELECT bit_xor(hash(t)) FROM ({rows}) AS t") == checksum, name
    case = other.case(first.target, second, "second corpus", corpus_id=1)
    for check in (
        checks.check_corpus, checks.check_documents, checks.check_sequences, checks.check_positions, checks.check_statistics, checks.check_triggers,
        checks.check_trace, checks.check_final_logits, checks.check_residual_states, checks.check_lens, checks.check_lens_tokens, checks.check_coefficients,
        checks.check_layer_activity, checks.check_sub_updates, checks.check_sums, checks.check_events, check_removal, check_next_token_ranks,
    ):  # fmt: skip
        check(case)


@pytest.mark.thorough
def test_a_larger_trace_contains_the_smaller_and_traces_nothing_twice(tiny: Tiny, tmp_path: Path) -> None:
    target, fresh = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    few = {p for (p,) in Published(run(tiny.request(target, trace=40))).rows("SELECT position_id FROM trace")}
    grown = Published(run(tiny.request(target, trace=TRACED)))
    straight = Published(run(tiny.request(fresh, trace=TRACED)))
    in_grown, in_straight = grown.rows("SELECT position_id FROM trace ORDER BY 1"), straight.rows("SELECT position_id FROM trace ORDER BY 1")
    assert len(few) == 40
    assert in_grown == in_straight
    assert len(in_grown) == len(set(in_grown)) == TRACED
    assert few < {p for (p,) in in_grown}
    for table in ("residual_state", "logit_lens", "logit_lens_token", "coefficient", "layer_activity", "sub_update"):
        assert grown.rows(f"SELECT count(*) FROM {table}") == straight.rows(f"SELECT count(*) FROM {table}"), table
    assert grown.table("sub_update").where(selection="random")["neuron"].tolist() == straight.table("sub_update").where(selection="random")["neuron"].tolist()
    for check in (checks.check_trace, checks.check_lens, checks.check_layer_activity, checks.check_sub_updates, checks.check_events):
        check(tiny.case(target, tiny.request(target, trace=TRACED), "grown"))


@pytest.mark.thorough
def test_a_trace_of_positions_that_are_traced_already_adds_nothing(tiny: Tiny, tmp_path: Path) -> None:
    target = run(tiny.request(tmp_path / "a.duckdb", trace=40))
    with_all = Published(target).checksums()
    again = Published(run(tiny.request(target, trace=40, coefficients=5)))
    assert {name: again.checksums()[name] for name in with_all if name not in ("run", "shard")} == {
        name: checksum for name, checksum in with_all.items() if name not in ("run", "shard")
    }
    assert again.rows("SELECT DISTINCT status FROM run") == [("finished",)]


@pytest.mark.thorough
def test_blank_documents_at_the_end_of_a_corpus_are_kept(tiny: Tiny, tmp_path: Path) -> None:
    """Also when the documents before have filled their shard, so that blank ones would be a shard of their own."""
    texts: list[Text] = write_corpus(tmp_path / "blank.jsonl", [*TEXTS, " ", ""])
    other = replace(tiny, corpus=tmp_path / "blank.jsonl", texts=texts)
    request = other.request(tmp_path / "a.duckdb", shard_positions=1)
    case = other.case(run(request), request, "blank end")
    for check in (checks.check_documents, checks.check_positions, checks.check_runs, checks.check_statistics, checks.check_triggers):
        check(case)
