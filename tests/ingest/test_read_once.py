"""What is sampled is recorded while its span is read, and alone where the span is there already: the same positions, once each, whatever is killed."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ingest import drive
from ingest import run as driver
from ingest.model.models import Model
from ingest.store.committer import Committer
from ingest.text.parts import SAMPLED_PER_SHARD, documents_of_parts, is_within_span, sample_parts
from ingest.text.survey import Span
from schema.open.store import open_reader
from schema.progress import progress_bar
from tests.exact.tiny import Tiny, make

TABLES = (
    "trace",
    "logit_lens",
    "logit_lens_token",
    "coefficient",
    "layer_activity",
    "sub_update",
    "residual_state",
    "trigger",
    "neuron_statistics",
    "head_statistics",
    "attention_distance",
    "position_prediction",
    "ngram_prediction",
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("gpt2"), "gpt2")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tokens of every forward pass."""
    seen: list[int] = []
    backbone = Model.backbone
    monkeypatch.setattr(Model, "backbone", lambda self, ids: (seen.append(ids.numel()), backbone(self, ids))[1])
    return seen


def ingest(tiny: Tiny, target: Path, **changes: object) -> None:
    with progress_bar(is_quiet=True) as bar:
        driver.ingest(tiny.request(target, **{"shard_positions": 120, "trace": 90, "paper": False, **changes}), bar)


def rows(target: Path) -> dict[str, list[tuple]]:
    with closing(open_reader(target)) as con:
        return {
            table: con.execute(f"SELECT * EXCLUDE (run_id) FROM {table} ORDER BY ALL" if table == "trace" else f"FROM {table} ORDER BY ALL").fetchall()
            for table in TABLES
        }


@pytest.mark.thorough
def test_a_trace_beside_a_sweep_reads_nothing_again(tiny: Tiny, tmp_path: Path, read: list[int]) -> None:
    ingest(tiny, tmp_path / "sweep.duckdb", trace=0)
    swept = [*read]
    read.clear()
    ingest(tiny, tmp_path / "both.duckdb")
    assert read == swept
    assert len(rows(tmp_path / "both.duckdb")["trace"]) == 90


@pytest.mark.thorough
def test_a_trace_after_a_sweep_reads_what_it_needs_and_says_the_same(tiny: Tiny, tmp_path: Path, read: list[int]) -> None:
    ingest(tiny, tmp_path / "both.duckdb", trace=12)
    whole = sum(read)
    ingest(tiny, tmp_path / "later.duckdb", trace=0)
    read.clear()
    ingest(tiny, tmp_path / "later.duckdb", trace=12)
    assert 0 < sum(read) < whole / 2
    one, other = rows(tmp_path / "both.duckdb"), rows(tmp_path / "later.duckdb")
    assert [row[0] for row in one["trace"]] == [row[0] for row in other["trace"]]
    for (*place, a), (*same, b) in zip(one["residual_state"], other["residual_state"], strict=True):
        assert place == same
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def killed_after(monkeypatch: pytest.MonkeyPatch, n: int, action: Callable[[], None]) -> None:
    """Do something that ends when it has loaded so many shards."""
    commit, left = Committer.commit, [n]

    def counted(self: Committer, shard: object) -> None:
        commit(self, shard)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", counted)
        with pytest.raises(KeyboardInterrupt):
            action()


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("kill_after", [4, 5, 6])
def test_killed_between_the_shards_of_a_reading_it_ends_the_same_to_the_bit(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill_after: int
) -> None:
    """The fourth shard is the first of the trace, the fifth its span's, the sixth the next of the trace."""
    ingest(tiny, tmp_path / "whole.duckdb")
    killed_after(monkeypatch, kill_after, lambda: ingest(tiny, tmp_path / "killed.duckdb"))
    ingest(tiny, tmp_path / "killed.duckdb")
    assert rows(tmp_path / "killed.duckdb") == rows(tmp_path / "whole.duckdb")


@pytest.mark.ci_cases(2)
@pytest.mark.thorough
@pytest.mark.parametrize("kill_after", [4, 5, 16])
def test_a_span_that_is_read_again_for_some_of_those_who_lack_it_changes_no_bit(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill_after: int
) -> None:
    """Killed when one or two of the three shards of the first span are loaded, the fourth and fifth of all, or between two shards of counting."""
    asked = {"trace": 0, "head_statistics": True, "prediction": True, "ngram_corpus": True}
    ingest(tiny, tmp_path / "whole.duckdb", **asked)
    killed_after(monkeypatch, kill_after, lambda: ingest(tiny, tmp_path / "killed.duckdb", **asked))
    ingest(tiny, tmp_path / "killed.duckdb", **asked)
    found = rows(tmp_path / "killed.duckdb")
    assert found == rows(tmp_path / "whole.duckdb")
    assert found["position_prediction"] and found["ngram_prediction"]


@pytest.mark.thorough
def test_what_a_span_has_too_many_of_is_read_after_it(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.text.parts.SAMPLED_PER_SHARD", 4)
    monkeypatch.setattr(drive, "MOST_RIDING", 1)
    ingest(tiny, tmp_path / "a.duckdb")
    with closing(open_reader(tmp_path / "a.duckdb")) as con:
        assert con.execute("SELECT count(*), count(DISTINCT position_id) FROM trace").fetchall() == [(90, 90)]
        (found,) = con.execute("SELECT n_shards, (SELECT count(*) FROM shard AS s WHERE s.run_id = r.run_id) FROM run AS r WHERE kind = 'trace'").fetchall()
    assert found[0] == found[1] >= 90 / 4


@pytest.mark.thorough
def test_a_trace_begun_when_its_parts_did_not_end_with_a_span_goes_on(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As releases before this one left it: no size of spans among its settings, and parts of the whole sample."""
    target = tmp_path / "a.duckdb"
    monkeypatch.setattr("ingest.text.parts.SAMPLED_PER_SHARD", 8)
    commit, register = Committer.commit, drive.register_run

    def formerly(con: object, kind: str, corpus_id: int, settings: dict, *rest: object) -> int:
        return register(con, kind, corpus_id, {k: v for k, v in settings.items() if k != "shard_positions"} if kind == "trace" else settings, *rest)

    def stop(self: Committer, shard: object) -> None:
        commit(self, shard)
        if (shard.run_id, shard.shard_id) == (1, 3):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(drive, "register_run", formerly)
        patch.setattr(drive, "sample_parts", lambda sample, _: sample_parts(sample, ()))
        patch.setattr(Committer, "commit", stop)
        with pytest.raises(KeyboardInterrupt):
            ingest(tiny, target, triggers=0)
    ingest(tiny, target, triggers=0)
    with closing(open_reader(target)) as con:
        runs = con.execute("SELECT kind, status, settings, n_shards FROM run WHERE kind = 'trace'").fetchall()
        assert con.execute("SELECT count(*), count(DISTINCT position_id) FROM trace").fetchall() == [(90, 90)]
    assert [(kind, status, n) for kind, status, _, n in runs] == [("trace", "finished", 12)]
    assert "shard_positions" not in json.loads(runs[0][2])


def test_parts_hold_the_sample_and_cross_no_span() -> None:
    spans = tuple(Span(i, i, 1, 100 * i, 100) for i in range(4))
    sample = tuple(sorted(np.random.default_rng(0).choice(400, 170, replace=False).tolist()))
    parts = sample_parts(sample, spans)
    assert np.concatenate(parts).tolist() == list(sample)
    assert all(0 < len(part) <= SAMPLED_PER_SHARD for part in parts)
    assert all(sum(is_within_span(part, span) for span in spans) == 1 for part in parts)
    assert len(sample_parts(sample, ())) == 3
    assert list(documents_of_parts({}, iter(()))) == []
