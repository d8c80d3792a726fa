"""What there is to do with a lake: ask it, verify it, pull it, compact it, mend it."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.request import Request
from ingest.store.lake.store import opened_lake
from schema.store import open_reader
from tests.exact.tiny import run
from tests.lake.conftest import sums


@pytest.mark.long
def test_every_rule_holds(request_lake: Callable[..., Request], call: Callable) -> None:
    path = run(request_lake())
    code, out, err = call("verify", "--db", path)
    assert code == 0, out + err
    code, out, err = call("status", path, "--json")
    assert code == 0, err
    status = json.loads(out)
    assert status["bytes"] > 100_000
    assert status["rows"]["trace"] == 60


def test_pulled_whole_it_is_the_file(request_lake: Callable[..., Request], file: Path, tmp_path: Path, call: Callable) -> None:
    pulled = tmp_path / "pulled.duckdb"
    code, out, err = call("pull", run(request_lake()), pulled)
    assert code == 0, err
    assert "pulled.duckdb is ready" in out
    assert sums(pulled) == sums(file)
    assert call("verify", "--db", pulled)[0] == 0
    code, _, err = call("pull", tmp_path / "atlas.lake", pulled)
    assert code == 1
    assert "is there already" in err


@pytest.mark.long
def test_pulled_layers(request_lake: Callable[..., Request], file: Path, tmp_path: Path, call: Callable) -> None:
    path, pulled = run(request_lake()), tmp_path / "pulled.duckdb"
    assert call("pull", path, pulled, "--layers", "0,2")[0] == 0
    with closing(open_reader(pulled)) as part, closing(open_reader(file)) as whole:
        for table in ("trigger", "neuron", "logit_lens", "position", "token"):
            where = "" if table in ("position", "token") else " WHERE layer <> 1"
            sql = f"SELECT count(*), sum(hash(t)) FROM (FROM {table}{where}) AS t"
            assert part.execute(sql.replace(where, "")).fetchall() == whole.execute(sql).fetchall(), table
    code, _, err = call("pull", path, tmp_path / "none.duckdb", "--layers", "0-3")
    assert code == 1
    assert "has layers 0 to 2, and no 3" in err
    assert sorted(p.name for p in tmp_path.glob("none*")) == []
    for layers in ("all", "2-0", "0-9999999999", "9" * 5000):
        assert "takes numbers and ranges" in call("pull", path, tmp_path / "none.duckdb", "--layers", layers)[2]
    assert "names that end in collections.duckdb are for the collections" in call("pull", path, tmp_path / "none.collections.duckdb")[2]
    assert "ends in .lake" in call("pull", file, tmp_path / "none.duckdb")[2]


def test_compaction_makes_few_files_of_many_and_changes_nothing(request_lake: Callable[..., Request], file: Path, call: Callable) -> None:
    path = run(request_lake(shard_positions=50))
    before = sums(path)
    reader = open_reader(path)
    code, out, err = call("compact", path)
    assert code == 0, err
    n_before, n_after = (int(part.split(" files")[0].rpartition(" ")[2]) for part in out.split("; ")[:2])
    assert n_after < n_before
    assert sums(path) == before
    # who opened it before reads on
    assert reader.execute("SELECT count(*) FROM trigger").fetchall() == [(before["trigger"][0],)]
    reader.close()
    code, out, err = call("compact", path, "--keep-hours", "0")
    assert code == 0, err
    assert sums(path) == before
    code, out, _ = call("doctor", path)
    assert (code, out) == (0, f"{path}: nothing to mend\n")


@pytest.mark.thorough
def test_what_dead_workers_left_is_named_and_removed(request_lake: Callable[..., Request], call: Callable) -> None:
    path = run(request_lake(trace=0, paper=False))
    with opened_lake(path) as opened:
        system, root = opened.staging.opened()
        with system.open_output_stream(f"{root}/009-00000-0000dead0000/trigger.parquet") as stream:
            stream.write(b"half")
        rows = pa.table({"space": ["value"], "layer": pa.array([0], pa.int16()), "neuron": pa.array([1], pa.int32()), "cluster": pa.array([0], pa.int32())})
        opened.staging.write(0, 0, 70, {"value_cluster": rows})
    code, out, err = call("doctor", path)
    assert code == 1
    assert "shards that wait to be loaded: 1\n" in out, err
    assert "1 files in s3://" in out
    assert "009-00000-0000dead0000/trigger.parquet" in out
    assert call("doctor", path, "--repair")[0] == 0
    with opened_lake(path) as opened:
        assert opened.con.execute("SELECT run_id, shard_id FROM shard WHERE shard_id = 70").fetchall() == [(0, 70)]
        assert opened.staging.waiting() == []
        opened.staging.write(0, 0, 71, {"value_cluster": rows.set_column(2, "neuron", pa.array([2], pa.int32()))})
    # a shard that waits is no fault: the next ingest loads it
    assert call("doctor", path)[:2] == (
        0,
        f"shards that wait to be loaded: 1\n    to do: run the ingest again: it goes on with them\n{path}: nothing to mend\n",
    )
