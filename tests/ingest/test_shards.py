"""Shards: whole or absent, and damage is noticed."""

import pyarrow as pa
import pytest

from ingest.store.shards import staged_shards, verify_shard, write_shard
from schema.errors import AtlasError

TABLES = {"trace": pa.table({"position_id": [1, 2]}), "sub_update": pa.table({"neuron": [5]})}


def test_a_written_shard_reads_back_and_verifies(tmp_path):
    shard = write_shard(tmp_path / "worker-0", 2, 7, TABLES)
    assert (shard.run_id, shard.shard_id, shard.n_rows) == (2, 7, {"trace": 2, "sub_update": 1})
    assert staged_shards(tmp_path) == [shard]
    assert verify_shard(shard) is None


def test_a_draft_of_a_dead_worker_is_no_shard_and_is_removed(tmp_path):
    write_shard(tmp_path / "worker-0", 0, 0, TABLES)
    draft = tmp_path / "worker-0" / ".000-00001.999"
    draft.mkdir()
    (draft / "trace.parquet").write_bytes(b"half")
    assert [s.shard_id for s in staged_shards(tmp_path)] == [0]
    assert not draft.exists()


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "add"])
def test_damaged_files_are_refused(tmp_path, damage):
    shard = write_shard(tmp_path / "worker-0", 0, 0, TABLES)
    file = tmp_path / "worker-0" / "000-00000" / "trace.parquet"
    data = file.read_bytes()
    if damage == "truncate":
        file.write_bytes(data[:-5])
    elif damage == "flip":
        file.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    elif damage == "remove":
        file.unlink()
    else:
        file.with_name("extra.parquet").write_bytes(b"")
    with pytest.raises(AtlasError, match="damaged"):
        verify_shard(shard)


def test_writing_again_replaces(tmp_path):
    write_shard(tmp_path / "worker-0", 0, 0, TABLES)
    again = write_shard(tmp_path / "worker-0", 0, 0, {"trace": TABLES["trace"]})
    assert staged_shards(tmp_path) == [again]
