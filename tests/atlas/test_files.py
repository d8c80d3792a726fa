"""An answer's files: whole or not at all, where a link leads, and never over a part of an atlas."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from atlas.export.files import write_file
from schema.errors import AtlasError

ANSWER, PROVENANCE = b"new", b"of the new"


def everything_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """An answer that is there already, with its provenance, alone in a folder."""
    (tmp_path / "answers").mkdir()
    path = tmp_path / "answers" / "o.csv"
    write_file(path, b"former", provenance=b"of the former")
    return path


def test_a_link_to_a_lake_s_file_is_refused_however_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    part = tmp_path / "lake" / "part.parquet"
    part.write_bytes(b"rows")
    for name in ("s.csv", "s.parquet"):
        link = tmp_path / name
        link.symlink_to(part)
        (tmp_path / f"{name}.provenance.json").touch()
        with pytest.raises(AtlasError, match=rf"cannot write {link}: it leads to {part}, and it may be a data file of a lake, for there is no part\.parq"):
            write_file(link, ANSWER, provenance=PROVENANCE)
    assert everything_in(tmp_path / "lake") == {"part.parquet": b"rows"}


def test_the_provenance_lies_beside_what_a_link_leads_to(tmp_path: Path, former: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(former)
    write_file(link, ANSWER, provenance=PROVENANCE)
    assert link.is_symlink()
    assert everything_in(former.parent) == {"o.csv": ANSWER, "o.csv.provenance.json": PROVENANCE}
    assert not (tmp_path / "link.csv.provenance.json").exists()


@pytest.mark.parametrize("name", ["a.keys/k0", "real.lake"])
def test_what_has_an_answer_s_bytes_by_a_second_name_keeps_them(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.duckdb").touch()
    (tmp_path / "a.keys").mkdir()
    precious, second = tmp_path / name, tmp_path / "second.csv"
    precious.write_bytes(b"precious")
    second.hardlink_to(precious)
    write_file(second, ANSWER, provenance=PROVENANCE)
    assert (precious.read_bytes(), second.read_bytes()) == (b"precious", ANSWER)


@pytest.mark.parametrize("sizes", [(200_000, 1), (1, 200_000)], ids=["answer", "provenance"])
def test_a_full_disk_leaves_the_former_answer_and_no_draft(former: Path, sizes: tuple[int, int]) -> None:
    """A limit on the size of files stands in for a full disk."""
    there, limits = everything_in(former.parent), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(AtlasError, match=r"cannot write .*o\.csv.*: File too large"):
            write_file(former, b"x" * sizes[0], provenance=b"x" * sizes[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert everything_in(former.parent) == there


def test_an_interruption_leaves_the_former_answer_and_no_draft(former: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    there = everything_in(former.parent)
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(former, ANSWER, provenance=PROVENANCE)
    assert everything_in(former.parent) == there


def test_who_may_read_an_answer_may_read_the_next(former: Path) -> None:
    former.chmod(0o640)
    if is_root := os.geteuid() == 0:
        os.chown(former, 65534, 65534)
    write_file(former, ANSWER)
    found = former.stat()
    assert (former.read_bytes(), found.st_mode & 0o777) == (ANSWER, 0o640)
    assert not is_root or (found.st_uid, found.st_gid) == (65534, 65534)


@pytest.mark.parametrize(("folder_mode", "file_mode", "said"), [(0o777, 0o444, "Permission denied"), (0o555, 0o666, "no new file can be made in .*; name")])
def test_what_may_not_be_written_stays(folder_mode: int, file_mode: int, said: str) -> None:
    # tmp_path lies in folders that only their owner may enter
    with TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "o.csv"
        write_file(path, b"former", provenance=b"of the former")
        there, is_root = everything_in(folder), os.geteuid() == 0
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        if is_root:
            os.seteuid(65534)
        try:
            with pytest.raises(AtlasError, match=rf"cannot write {path}: {said}"):
                write_file(path, ANSWER)
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(0o755)
        assert everything_in(folder) == there


@pytest.mark.thorough
def test_standard_output_is_written_to_wherever_it_goes_and_has_no_provenance(tiny_path: Path, tmp_path: Path) -> None:
    code = "from atlas.cli import main; main()"
    command = [sys.executable, "-c", code, "sql", "SELECT 1 AS a", "--db", str(tiny_path), "--format", "jsonl", "-o", "/dev/stdout"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b'{"a": 1}\n'
    out = tmp_path / "out.parquet"
    with out.open("wb") as file:
        subprocess.run(command, stdout=file, check=True)
        file.seek(0, os.SEEK_END)
        file.write(b"more")
    assert json.loads(out.read_bytes().removesuffix(b"more")) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert not Path("/dev/stdout.provenance.json").exists()
