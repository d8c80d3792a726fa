"""What there is to do with a lake: ask it, verify it, pull it, compact it, mend it."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.request import Request
from ingest.store.lake.store import opened_lake
from schema.open.store import open_reader
from tests.exact.tiny import Tiny, run
from tests.lake.conftest import sums
from tests.lake.servers import Servers


@pytest.fixture(scope="module")
def lake(tiny: Tiny, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose content no test changes."""
    folder = tmp_path_factory.mktemp("commands")
    return run(tiny.request(folder / "atlas.lake", lake=servers.catalogue("commands"), data=servers.data("commands")))


@pytest.mark.long
def test_every_rule_holds(lake: Path, call: Callable) -> None:
    code, out, err = call("verify", "--db", lake)
    assert code == 0, out + err
    code, out, err = call("status", lake, "--json")
    assert code == 0, err
    status = json.loads(out)
    assert status["bytes"] > 100_000
    assert status["rows"]["trace"] == 60


def test_pulled_whole_it_is_the_file(lake: Path, file: Path, tmp_path: Path, call: Callable) -> None:
    pulled = tmp_path / "pulled.duckdb"
    code, out, err = call("pull", lake, pulled)
    assert code == 0, err
    assert "pulled.duckdb is ready" in out
    assert sums(pulled) == sums(file)
    assert call("verify", "--db", pulled)[0] == 0
    code, _, err = call("pull", lake, pulled)
    assert code == 1
    assert "exists already" in err


@pytest.mark.long
def test_pulled_layers(lake: Path, file: Path, tmp_path: Path, call: Callable) -> None:
    pulled = tmp_path / "pulled.duckdb"
    assert call("pull", lake, pulled, "--layers", "0,2")[0] == 0
    with closing(open_reader(pulled)) as part, closing(open_reader(file)) as whole:
        for table in ("trigger", "neuron", "logit_lens", "position", "token"):
            where = "" if table in ("position", "token") else " WHERE layer <> 1"
            sql = f"SELECT count(*), sum(hash(t)) FROM (FROM {table}{where}) AS t"
            assert part.execute(sql.replace(where, "")).fetchall() == whole.execute(sql).fetchall(), table
    code, _, err = call("pull", lake, tmp_path / "none.duckdb", "--layers", "0-3")
    assert code == 1
    assert "has layers 0 to 2, and no 3" in err
    assert sorted(p.name for p in tmp_path.glob("none*")) == []
    for layers in ("all", "2-0", "0-9999999999", "9" * 5000):
        assert "takes numbers and ranges" in call("pull", lake, tmp_path / "none.duckdb", "--layers", layers)[2]
    assert "names that end in collections.duckdb are for the collections" in call("pull", lake, tmp_path / "none.collections.duckdb")[2]
    assert "ends in .lake" in call("pull", file, tmp_path / "none.duckdb")[2]


def test_compaction_makes_few_files_of_many_and_changes_nothing(lake: Path, call: Callable) -> None:
    before = sums(lake)
    reader = open_reader(lake)
    code, out, err = call("compact", lake)
    assert code == 0, err
    n_before, n_after = (int(part.split(" files")[0].rpartition(" ")[2]) for part in out.split("; ")[:2])
    assert n_after < n_before
    assert sums(lake) == before
    # who opened it before reads on
    assert reader.execute("SELECT count(*) FROM trigger").fetchall() == [(before["trigger"][0],)]
    reader.close()


@pytest.mark.thorough
def test_files_that_compaction_replaced_are_removed_and_nothing_else(lake: Path, call: Callable) -> None:
    before = sums(lake)
    code, out, err = call("compact", lake, "--keep-hours", "0")
    assert code == 0, err
    assert sums(lake) == before
    code, out, _ = call("doctor", lake)
    assert (code, out) == (0, f"{lake}: nothing to mend\n")


@pytest.mark.thorough
def test_what_dead_workers_left_is_named_and_removed(request_lake: Callable[..., Request], call: Callable) -> None:
    path = run(request_lake(trace=0, paper=False))
    with opened_lake(path) as opened:
        system, root = opened.staging.open_filesystem()
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
        assert opened.staging.waiting_shards() == []
        opened.staging.write(0, 0, 71, {"value_cluster": rows.set_column(2, "neuron", pa.array([2], pa.int32()))})
    # a shard that waits is no fault: the next ingest loads it
    assert call("doctor", path)[:2] == (
        0,
        f"shards that wait to be loaded: 1\n    to do: run the ingest again: it loads them\n{path}: nothing to mend\n",
    )
