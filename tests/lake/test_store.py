"""A lake ends with what a file ends with, whatever is done to those who write it."""

import gc
import json
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from ingest.request import Request
from ingest.store import committer
from ingest.store.lake import store as lake_store
from ingest.store.lake.staging import Storage, cast_columns
from ingest.store.lake.store import LakeStore, close_unless_dead, opened_lake
from ingest.store.lake.tables import not_null
from ingest.store.shards import Shard
from schema.errors import AtlasError, Locked, NotAnAtlas, Unreachable
from schema.open.lake import Lake, describe, read_lake
from schema.open.store import open_reader
from tests import preloaded
from tests.exact.tiny import CIRCUITS, Tiny, asked, run
from tests.ingest.suite_files import written_suite
from tests.ingest.test_run import saved
from tests.ingest.test_tree_probes import PIPELINE, short_texts
from tests.lake.conftest import contents, sums
from tests.lake.servers import Servers

pytestmark = pytest.mark.long


def cluster(neuron: int) -> dict[str, pa.Table]:
    """A shard of one row."""
    return {
        "value_cluster": pa.table(
            {"space": ["value"], "layer": pa.array([0], pa.int16()), "neuron": pa.array([neuron], pa.int32()), "cluster": pa.array([0], pa.int32())}
        )
    }


RACE = """
import sys
from pathlib import Path
from ingest.store.lake import store
from ingest.store.lake.store import LakeStore
from schema.open.lake import attach, connect, read_lake
from schema.open.store import OFFLINE
path = Path(sys.argv[1])
lake = read_lake(path)
con = connect(lake, OFFLINE)
attach(con, lake)
con.execute("SET ducklake_max_retry_count = 100")
con.execute("SET search_path = 'lake.parts,lake.main'")
mine = LakeStore(con, lake, path, "", "", int(sys.argv[2]))
loaded = 0
for shard in mine.staging.waiting():
    try:
        mine.load(shard)
        loaded += 1
    except Exception as error:
        print(type(error).__name__, error)
print("loaded", loaded)
"""


def test_a_lake_has_what_a_file_has(request_lake: Callable[..., Request], file: Path) -> None:
    assert sums(run(request_lake())) == sums(file)


def test_a_lake_on_a_disk_too(request_lake: Callable[..., Request], file: Path, tmp_path: Path) -> None:
    assert sums(run(replace(request_lake(), data=str(tmp_path / "data")))) == sums(file)


def test_the_tests_of_a_suite(request_lake: Callable[..., Request], tiny: Tiny, tmp_path: Path) -> None:
    suite = {"suite": written_suite(tmp_path), "prediction": True, "bos": "start", "context": 64, "trace": 0, "paper": False}
    assert contents(run(request_lake(**suite))) == contents(run(tiny.request(tmp_path / "file.duckdb", **suite)))


def test_words_and_what_is_read_of_them(servers: Servers, tmp_path: Path) -> None:
    model, corpus = saved(tmp_path / "gpt2", seed=0), short_texts(tmp_path)
    read = {"words": PIPELINE, "probe": ("pos", "index"), "probe_rank": 1, "tree_probe": True, "tree_ranks": "2", "head_relation": True, "token_vectors": True}
    given = {"context": 64, "batch_size": 4, "seed": 3, "token_states": True, **read}
    lake = replace(asked(tmp_path / "a.lake", str(model), corpus, **given), lake=servers.catalogue("words"), data=servers.data("words"))
    assert contents(run(lake)) == contents(run(asked(tmp_path / "a.duckdb", str(model), corpus, **given)))


def test_the_same_command_again_changes_nothing_but_reads(request_lake: Callable[..., Request]) -> None:
    asked = request_lake()
    before = sums(run(asked))
    # the second time the file says where the lake is
    assert sums(run(replace(asked, lake=None, data=None))) == before


def test_several_workers_and_every_pass_of_attention(request_lake: Callable[..., Request], tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ingest.workers import ray_pool

    monkeypatch.setattr(ray_pool, "threads_each", lambda _: 1)
    # tests/exact/test_lists.py holds what such rules leave of a file against brute force
    asked = {"skip_first": 1, "distinct": 4, **CIRCUITS}
    assert contents(run(request_lake(workers=2, **asked))) == contents(run(tiny.request(tmp_path / "file.duckdb", **asked)))


def test_another_corpus_later_merges_that_one_alone(request_lake: Callable[..., Request], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request_lake(trace=0, paper=False)
    run(asked)
    other = tmp_path / "other.txt"
    other.write_text("The people of another world speak of the union. " * 5)
    merged, real = [], LakeStore.merge
    monkeypatch.setattr(LakeStore, "merge", lambda self, table, corpus_id: (merged.append((table, corpus_id)), real(self, table, corpus_id)))
    run(replace(asked, corpus=str(other)))
    assert sorted(merged) == [(table, 1) for table in ("attention_distance", "head_statistics", "neuron_statistics", "trigger")]
    # a file with both
    both = replace(asked, target=tmp_path / "both.duckdb", lake=None, data=None)
    run(both)
    run(replace(both, corpus=str(other)))
    assert sums(asked.target) == sums(both.target)


def test_what_was_there_when_it_was_interrupted_is_not_computed_again(
    request_lake: Callable[..., Request], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, loaded, real = request_lake(), [], LakeStore.load

    def load_or_stop(self: LakeStore, shard: Shard) -> None:
        if len(loaded) == 5:
            raise KeyboardInterrupt
        loaded.append((shard.run_id, shard.shard_id))
        real(self, shard)

    monkeypatch.setattr(LakeStore, "load", load_or_stop)
    with pytest.raises(KeyboardInterrupt):
        run(asked)
    with pytest.raises(NotAnAtlas, match="nothing has been published in the lake"):
        open_reader(asked.target)
    again: list[tuple[int, int]] = []
    monkeypatch.setattr(LakeStore, "load", lambda self, shard: (again.append((shard.run_id, shard.shard_id)), real(self, shard)))
    run(asked)
    assert not set(again) & set(loaded)
    assert sums(asked.target) == sums(file)


def test_a_reader_sees_what_was_published_when_it_opened(request_lake: Callable[..., Request], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request_lake(paper=False)
    monkeypatch.setattr(committer, "PUBLISH_SHARE", 0)
    seen, real = [], LakeStore.load

    def load_and_look(self: LakeStore, shard: Shard) -> None:
        if seen:
            before = seen[-1].execute("SELECT count(*), sum(hash(t)) FROM trigger AS t").fetchall()
        real(self, shard)
        if seen:
            assert seen[-1].execute("SELECT count(*), sum(hash(t)) FROM trigger AS t").fetchall() == before
        self.publish()
        seen.append(open_reader(asked.target))

    monkeypatch.setattr(LakeStore, "load", load_and_look)
    run(asked)
    manifest = [con.execute("SELECT count(*) FROM shard").fetchall()[0][0] for con in seen]
    assert manifest == list(range(1, len(seen) + 1))
    for con in seen:
        con.close()


def test_a_shard_is_entered_once_however_many_try(request_lake: Callable[..., Request], servers: object) -> None:
    asked = request_lake()
    describe(asked.target, Lake(asked.lake, asked.data))
    with opened_lake(asked.target) as opened:
        for i in range(6):
            opened.staging.write(0, 0, i, cluster(i))
        begun = [preloaded.started(RACE, str(asked.target), str(opened.term)) for _ in range(4)]
        said = [ended().stdout for ended in begun]
        assert sum(int(text.rpartition("loaded ")[2]) for text in said) >= 6, said
        rows = opened.con.execute(
            "SELECT (SELECT count(*) FROM shard), (SELECT count(*) FROM value_cluster), (SELECT n_commits FROM parts.committer)"
        ).fetchall()
        assert rows == [(6, 6, 6)], said


def test_who_was_thought_dead_can_enter_nothing_more(request_lake: Callable[..., Request], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request_lake()
    describe(asked.target, Lake(asked.lake, asked.data))
    with opened_lake(asked.target) as first:
        shard = first.staging.write(0, 0, 0, cluster(1))
        # its session was cut, so PostgreSQL has given its lock away
        monkeypatch.setattr(lake_store, "LOCK", lake_store.LOCK + 1)
        with opened_lake(asked.target) as second:
            with pytest.raises(Locked, match="taken over by .* PID"):
                first.load(shard)
            second.load(shard)
            with pytest.raises(AtlasError, match="shard 0 of run 0 is in the lake already"):
                second.load(shard)
            with pytest.raises(Locked):
                first.publish()
        assert first.con.execute("SELECT count(*) FROM value_cluster").fetchall() == [(1,)]


def test_two_at_once_are_told_apart(request_lake: Callable[..., Request]) -> None:
    asked = request_lake()
    describe(asked.target, Lake(asked.lake, asked.data))
    with opened_lake(asked.target), pytest.raises(Locked, match="is being written by .* PID"), opened_lake(asked.target):
        pass


@pytest.mark.parametrize("how", ["cut", "gone", "other rows"])
def test_a_damaged_shard_is_not_entered(request_lake: Callable[..., Request], how: str) -> None:
    asked = request_lake()
    describe(asked.target, Lake(asked.lake, asked.data))
    with opened_lake(asked.target) as opened:
        shard = opened.staging.write(0, 0, 0, cluster(1))
        system, root = opened.staging.open_filesystem()
        name = f"{root}/{shard.path.rpartition('/')[2]}/value_cluster.parquet"
        with system.open_input_stream(name) as stream:
            whole = stream.read()
        system.delete_file(name)
        if how == "cut":
            with system.open_output_stream(name) as stream:
                stream.write(whole[: len(whole) // 2])
        if how == "other rows":
            manifest = json.dumps({"run_id": 0, "shard_id": 0, "n_rows": {"value_cluster": 2}, "sha256": "", "worker": ""})
            with system.open_output_stream(f"{root}/{shard.path.rpartition('/')[2]}/manifest.json") as stream:
                stream.write(manifest.encode())
            with system.open_output_stream(name) as stream:
                stream.write(whole)
        (waiting,) = opened.staging.waiting_shards()
        with pytest.raises(AtlasError, match=r"shard s3://.*/000-00000-\w+ is damaged: value_cluster.parquet"):
            opened.load(waiting)
        assert opened.con.execute("SELECT (SELECT count(*) FROM shard), (SELECT count(*) FROM value_cluster)").fetchall() == [(0, 0)]


class Connection:
    """Stands in for one whose database answers, is dead, or has an error otherwise."""

    def __init__(self, error: type[Exception] | None) -> None:
        self.error, self.is_closed = error, False

    def execute(self, _: str) -> None:
        if self.error:
            raise self.error("invalidated")

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("error", "is_dead"), [(None, False), (duckdb.IOException, False), (duckdb.FatalException, True)])
def test_a_dead_database_is_neither_closed_nor_let_go_of(error: type[Exception] | None, is_dead: bool) -> None:
    """DuckDB's destructor would end the process as its close does."""
    con: Any = Connection(error)
    held = weakref.ref(con)
    with suppress(KeyError), close_unless_dead(con):
        raise KeyError
    assert con.is_closed is not is_dead
    del con
    gc.collect()
    assert (held() is not None) is is_dead


def test_storage_that_is_away_is_no_damage(request_lake: Callable[..., Request], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens on port 1."""
    asked = request_lake()
    describe(asked.target, Lake(str(asked.lake), str(asked.data)))
    with opened_lake(asked.target) as opened:
        shard = opened.staging.write(0, 0, 0, cluster(1))
        opened.con.execute("CREATE OR REPLACE SECRET storage (TYPE s3, KEY_ID 'k', SECRET 's', ENDPOINT '127.0.0.1:1', USE_SSL false, URL_STYLE 'path')")
        with pytest.raises(duckdb.IOException, match="onnect"):
            opened.load(shard)
        with monkeypatch.context() as patched:
            patched.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
            for ask in (opened.staging.waiting_shards, lambda: opened.staging.discard(shard), lambda: opened.staging.write(0, 0, 1, cluster(1))):
                with pytest.raises(Unreachable, match=f"the storage {asked.data} does not answer: "):
                    ask()
        assert [s.path for s in opened.staging.waiting_shards()] == [shard.path]


@pytest.mark.parametrize(
    ("name", "lake", "data", "said"),
    [
        ("a.duckdb", "postgresql://h/d", "s3://b", r"ends in \.lake: .*a\.lake"),
        ("a.lake", "sqlite:///x", "s3://b", "PostgreSQL database"),
        ("a.lake", "postgresql://u:secret@h/d", "s3://b", "leave the password out"),
        ("a.lake", "postgresql://h/d", "gs://b", "S3-compatible"),
        ("a.lake", "postgresql://127.0.0.1:1/none", "s3://b", "does not answer"),
    ],
)
def test_what_can_be_no_lake(request_lake: Callable[..., Request], tmp_path: Path, name: str, lake: str, data: str, said: str) -> None:
    with pytest.raises(AtlasError, match=said):
        run(replace(request_lake(), target=tmp_path / name, lake=lake, data=data))


def test_a_description_is_not_changed_by_another_call(request_lake: Callable[..., Request], tmp_path: Path) -> None:
    asked = request_lake()
    describe(asked.target, Lake("postgresql://h/d", "s3://b/p"))
    with pytest.raises(AtlasError, match="describes another lake: postgresql://h/d with files in s3://b/p"):
        run(asked)
    assert read_lake(asked.target) == Lake("postgresql://h/d", "s3://b/p")
    (tmp_path / "none.lake").write_text("{}")
    with pytest.raises(NotAnAtlas, match="does not describe a lake"):
        open_reader(tmp_path / "none.lake")


def test_readers_can_reach_nothing_else(request_lake: Callable[..., Request]) -> None:
    with closing(open_reader(run(request_lake(trace=0, paper=False, triggers=0)))) as con:
        for statement in ("SELECT * FROM read_text('/etc/hostname')", "COPY model TO '/tmp/model.csv'", "CREATE TABLE lake.main.t (a INT)", "SET threads = 1"):
            with pytest.raises(duckdb.Error):
                con.execute(statement)
        assert Storage(Lake("", "s3://b")).lake.data == "s3://b"


def test_a_lake_of_an_earlier_release_reads_what_it_lacks_as_null_and_the_next_trace_fills_it(request_lake: Callable[..., Request]) -> None:
    asked = request_lake(triggers=0, paper=False, trace=20)
    run(asked)
    with opened_lake(asked.target) as store:
        store.con.execute("ALTER TABLE lake.main.sub_update DROP COLUMN final_frozen_score; DROP TABLE lake.main.map_point")
        store.con.execute("DROP TABLE lake.main.probe; CREATE TABLE lake.main.probe (run_id INTEGER NOT NULL, accuracy_low DOUBLE NOT NULL)")
        store.publish()
    filled = "SELECT count(DISTINCT position_id), count(DISTINCT position_id) FILTER (final_frozen_score IS NOT NULL) FROM sub_update"
    with closing(open_reader(asked.target)) as con:
        assert con.execute(filled).fetchall() == [(20, 0)]
        assert con.execute("SELECT count(*) FROM map_point").fetchall() == [(0,)]
    run(replace(asked, lake=None, data=None, trace=30))
    with closing(open_reader(asked.target)) as con:
        n, n_filled = con.execute(filled).fetchall()[0]
        assert n_filled == n - 20 > 0
    with opened_lake(asked.target) as store:
        assert not_null(store.con, "main", "probe") == {"run_id"}


def test_a_number_that_its_column_does_not_hold_is_said_with_its_table() -> None:
    with pytest.raises(AtlasError, match="table value_cluster cannot be written: Integer value 70000 not in range: -32768 to 32767"):
        cast_columns("value_cluster", pa.table({"layer": [70000]}))
