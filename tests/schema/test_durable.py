"""Whatever takes another file's place is on the disk before it has the name, and the name is before anything relies on it: seen in real calls, in order."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from atlas.export.files import write_file
from ingest.recorders.key_entries import write_keys
from ingest.store.committer import lock_work_folder
from ingest.store.doctor import rename
from ingest.store.lake.place import write_whole
from ingest.store.shards import write_shard
from ingest.store.snapshot import publish
from ingest.store.work_file import open_work_file
from ingest.text.corpora import stdin
from schema.open.lake import Lake, describe
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.tiny_atlas import write_tiny_atlas


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """('on disk', what) and ('named', from, to), as they come."""
    seen: list[tuple[str, ...]] = []
    fsync = os.fsync

    def see_fsync(handle: int) -> None:
        seen.append(("on disk", os.path.realpath(f"/proc/self/fd/{handle}")))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", see_fsync)
    for name in ("rename", "replace"):
        real = getattr(os, name)

        def see_name(source: os.PathLike, target: os.PathLike, real: Callable = real) -> None:
            seen.append(("named", os.fspath(source), os.fspath(target)))
            real(source, target)

        monkeypatch.setattr(os, name, see_name)
    yield seen
    monkeypatch.undo()


def export(path: Path) -> None:
    write_file(path / "table.csv", b"a,b\n", provenance=b"{}")


def annotate(path: Path) -> None:
    write_tiny_annotations(write_tiny_atlas(path / "a.duckdb"))


def publish_twice(path: Path) -> None:
    atlas = write_tiny_atlas(path / "a.duckdb")
    with lock_work_folder(atlas) as work, closing(open_work_file(atlas, work, 2)) as con:
        publish(con, atlas, work)


def write_key_file(path: Path) -> None:
    ids = np.arange(3)
    write_keys(path / "a.keys" / "0.parquet", ids, ids, ids.astype(np.int32), np.zeros((3, 2), np.float16))


def write_a_shard(path: Path) -> None:
    write_shard(path / "worker-0", 0, 0, {"neuron": pa.table({"layer": [0]})})


def mark(path: Path) -> None:
    write_whole(path / "mark.json", b"{}")


def describe_lake(path: Path) -> None:
    describe(path / "a.lake", Lake("postgresql://localhost/none", str(path)))


def set_aside(path: Path) -> None:
    (path / "a.duckdb").write_bytes(b"damaged")
    rename(path / "a.duckdb", path / "a.duckdb.damaged")


def keep_input(path: Path) -> None:
    stdin._keep(path / "stdin.txt")


WRITERS = {
    "an export": export, "a file beside an atlas": annotate, "a snapshot": publish_twice, "keys": write_key_file, "a shard": write_a_shard,
    "a lake's mark": mark, "where a lake is": describe_lake, "what a doctor sets aside": set_aside, "standard input": keep_input,
}  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS)
def test_bytes_then_name_then_folder(writer: str, events: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"some text\n")))
    WRITERS[writer](tmp_path)
    named = [(at, source, target) for at, (kind, source, *rest) in enumerate(events) if kind == "named" for target in rest if target.startswith(str(tmp_path))]
    assert named
    for at, source, target in named:
        assert ("on disk", source) in events[:at], f"{source} was named {target} before it was on the disk"
        assert ("on disk", str(Path(target).parent)) in events[at:], f"the name {target} was not waited for"


def test_files_of_a_shard_are_on_the_disk_before_it_has_its_name(events: list[tuple[str, ...]], tmp_path: Path) -> None:
    write_a_shard(tmp_path)
    at = next(i for i, event in enumerate(events) if event[0] == "named")
    assert {Path(what).name for kind, what, *_ in events[:at] if kind == "on disk"} == {"manifest.json", "neuron.parquet", Path(events[at][1]).name}
