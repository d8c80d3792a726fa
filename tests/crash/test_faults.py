"""Damage of every kind, each of which ends in a clear message and a state from which the same command makes the same atlas."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from atlas.beside.annotations import ANNOTATIONS
from ingest import run as driver
from ingest.store import committer
from schema.errors import AtlasError, Locked
from schema.open.names import MARKED, private_hardlink
from schema.open.store import HEADER_BYTES, open_reader, open_unchanged
from tests import preloaded
from tests.crash.conftest import ROOT, ask_doctor, sums
from tests.exact.tiny import Tiny, run


def repaired(target: Path) -> str:
    """What the doctor says; it finds something, and after the repair no more. Looking alone changes no file."""
    before = {p: p.read_bytes() for p in target.parent.rglob("*") if p.is_file() and p.name != "lock"}
    looked = ask_doctor(target)
    assert isinstance(looked.exception, AtlasError)
    assert {p: p.read_bytes() for p in target.parent.rglob("*") if p.is_file() and p.name != "lock"} == before
    ask_doctor(target, "--repair")
    again = ask_doctor(target)
    assert again.exit_code == 0, again.output
    return looked.output


def log_of(target: Path) -> Path:
    return committer.work_folder(target) / "atlas.duckdb.wal"


@pytest.mark.thorough
def test_a_stopped_ingest_has_nothing_to_mend_and_goes_on(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path]) -> None:
    target = interrupted("log")
    assert log_of(target).stat().st_size > 100_000
    assert ask_doctor(target).output.endswith("nothing to mend\n")
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.thorough
@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("abort", ["before_truncate", "before_header", "after_free_list_write"])
def test_a_checkpoint_that_dies_loses_nothing(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path], abort: str) -> None:
    target = interrupted(abort)
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.ci_cases(3)
@pytest.mark.first_cases(0)
@pytest.mark.parametrize("part", range(8))
def test_a_log_cut_anywhere_is_a_log_of_fewer_shards(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path], part: int) -> None:
    target = interrupted("log")
    data = log_of(target).read_bytes()
    log_of(target).write_bytes(data[: random.Random(part).randrange(len(data))])
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["zeros", "flip", "early flip"])
def test_a_damaged_log_is_cut_where_it_makes_no_more_sense(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path], damage: str) -> None:
    target = interrupted("log")
    data = bytearray(log_of(target).read_bytes())
    if damage == "zeros":
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    else:
        data[len(data) // (2 if damage == "flip" else 50)] ^= 1
    log_of(target).write_bytes(data)
    with pytest.raises(AtlasError, match="atlas doctor"):
        run(tiny.request(target))
    assert "is damaged from byte" in repaired(target)
    assert target.with_name("a.duckdb.working.wal.damaged").read_bytes() == data
    assert sums(run(tiny.request(target))) == expected


def flipped(file: Path) -> bytes:
    """The bytes of an atlas but for one bit among its triggers; no scan reads the blocks of an index."""
    with closing(open_unchanged(file)) as con:
        ((block,),) = con.execute("SELECT max(s.block_id) FROM pragma_storage_info('trigger') AS s").fetchall()
        ((size,),) = con.execute("SELECT p.block_size FROM pragma_database_size() AS p").fetchall()
    data = bytearray(file.read_bytes())
    data[HEADER_BYTES + block * size + size // 2] ^= 1
    return bytes(data)


@pytest.mark.thorough
def test_a_damaged_working_file_is_set_aside(tiny: Tiny, expected: dict, finished: Path) -> None:
    target = finished
    work = committer.work_folder(target)
    work.mkdir()
    data = flipped(target)
    (work / "atlas.duckdb").write_bytes(data)
    assert "does not read back" in repaired(target)
    assert target.with_name("a.duckdb.working.damaged").read_bytes() == data
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.thorough
def test_a_damaged_snapshot_is_set_aside_and_made_again(tiny: Tiny, expected: dict, finished: Path) -> None:
    target = finished
    data = flipped(target)
    target.write_bytes(data)
    assert "does not read back" in repaired_missing(target)
    assert target.with_name("a.duckdb.damaged").read_bytes() == data
    assert sums(run(tiny.request(target))) == expected


def repaired_missing(target: Path) -> str:
    """As `repaired`, where the repair leaves nothing under the atlas's name."""
    looked = ask_doctor(target)
    ask_doctor(target, "--repair")
    assert not target.exists()
    return looked.output


@pytest.mark.ci_cases(2)
@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["truncated", "swapped", "another's", "no manifest", "half a manifest"])
def test_a_damaged_shard_is_named_removed_and_computed_again(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path], damage: str) -> None:
    target = interrupted("shard")
    shard = staged(target)
    first, second, *_ = sorted(shard.glob("*.parquet"))
    if damage == "truncated":
        os.truncate(first, first.stat().st_size - 7)
    elif damage == "swapped":
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    elif damage == "another's":
        other = target.with_name("fourth") / first.name
        assert other.read_bytes() != first.read_bytes()
        shutil.copyfile(other, first)
    elif damage == "no manifest":
        (shard / "manifest.json").unlink()
    else:
        os.truncate(shard / "manifest.json", 20)
    with pytest.raises(AtlasError, match=rf"shard {shard} is damaged.*atlas doctor"):
        run(tiny.request(target))
    assert f"{shard} is damaged" in repaired(target)
    assert sums(run(tiny.request(target))) == expected


def staged(target: Path) -> Path:
    """The only shard that waits."""
    (shard,) = (p for p in committer.staging_folder(committer.work_folder(target)).glob("*/*") if not p.name.startswith("."))
    return shard


@pytest.mark.thorough
def test_a_whole_shard_under_the_name_of_another_counts_as_what_it_is(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path]) -> None:
    target = interrupted("shard")
    shard = staged(target)
    shutil.rmtree(shard)
    shutil.copytree(target.with_name("fourth"), shard)
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.thorough
def test_what_a_dead_writer_left_is_removed(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path]) -> None:
    target = interrupted("log")
    work = committer.work_folder(target)
    (work / "snapshot.tmp").write_bytes(b"half")
    (work / "shards" / "worker-0" / ".001-00001.99").mkdir(parents=True)
    dead, own = target.with_name(f".{target.name}.opening-{2**22 + 1}-aaaaaaaa"), target.with_name(f".{target.name}.mine")
    dead.mkdir()
    dead.chmod(MARKED)
    own.mkdir()
    with private_hardlink(target):
        (in_use,) = set(target.parent.glob(".a.duckdb.opening-*")) - {dead}
        said = repaired(target)
        assert in_use.is_dir()
    assert all(str(p) in said for p in (work / "snapshot.tmp", work / "shards" / "worker-0" / ".001-00001.99", dead))
    assert str(in_use) not in said
    assert own.is_dir()
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.thorough
def test_of_two_ingests_at_once_the_second_is_refused_before_it_loads_its_model(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.duckdb"
    code = "from pathlib import Path; from ingest.store.committer import lock_work_folder\n"
    code += f"with lock_work_folder(Path({str(target)!r})): print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with monkeypatch.context() as patched:
            patched.setattr(driver, "load_model", None)
            with pytest.raises(Locked, match=f"PID {holder.pid}"):
                run(tiny.request(target))
        assert isinstance(ask_doctor(target, "--repair").exception, Locked)
        holder.send_signal(signal.SIGKILL)
    assert run(tiny.request(target)).exists()


def test_annotations_and_others_logs_are_never_touched(finished: Path, tmp_path: Path) -> None:
    target = finished
    ANNOTATIONS.path(target).write_bytes(b"not a database" * 100)
    Path(f"{target}.wal").write_bytes(b"somebody's")
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    said = ask_doctor(target, "--repair")
    assert isinstance(said.exception, AtlasError) and str(said.exception).startswith(f"faults left in {target}: 2")
    assert "no repair changes annotations" in said.output and "another program has written" in said.output
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_an_atlas_of_another_version_is_said_to_be_whole(finished: Path) -> None:
    with closing(duckdb.connect(str(finished))) as con:
        con.execute("UPDATE model SET schema_version = 99")
    said = ask_doctor(finished, "--repair")
    assert "schema version 99" in said.output and "nothing is wrong with the file itself" in said.output
    assert finished.exists()


def test_nothing_of_that_name_is_an_error(tmp_path: Path) -> None:
    assert "no atlas at" in str(ask_doctor(tmp_path / "a.duckdb").exception)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_foretold(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1))
    assert "the next snapshot needs about" in ask_doctor(finished).output


@pytest.mark.thorough
def test_a_reader_is_open_throughout(tiny: Tiny, expected: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opened the first snapshot goes on reading it while others replace it."""
    target = run(tiny.request(tmp_path / "a.duckdb", trace=20))
    monkeypatch.setattr(committer, "PUBLISH_SHARE", 0)
    with closing(open_reader(target)) as con:
        before = con.execute("SELECT count(*), sum(hash(t)) FROM trace AS t").fetchall()
        run(tiny.request(target))
        assert con.execute("SELECT count(*), sum(hash(t)) FROM trace AS t").fetchall() == before
    assert sums(target)["trigger"] == expected["trigger"]


KILLED = """
import importlib, os, signal, sys
from pathlib import Path
from tests.exact.tiny import run, tiny_request
folder, target, module, name, table = (*map(Path, sys.argv[1:3]), importlib.import_module(sys.argv[3]), *sys.argv[4:])
real = getattr(module, name)
def killed(*args, **options):
    real(*args, **options)
    if not table or args[1] == table:
        os.kill(os.getpid(), signal.SIGKILL)
setattr(module, name, killed)
run(tiny_request(folder / "tiny-opt", folder / "corpus.jsonl", target))
"""


def kill_after(tiny: Tiny, target: Path, module: str, name: str, table: str = "") -> None:
    """Let an ingest die when it has called a function, for that table if one is given."""
    done = preloaded.run(KILLED, str(tiny.corpus.parent), str(target), module, name, table)
    assert done.returncode == -9, done.stderr


@pytest.mark.thorough
def test_an_ingest_killed_between_the_model_and_its_vocabulary_goes_on(tiny: Tiny, expected: dict, tmp_path: Path) -> None:
    target = tmp_path / "a.duckdb"
    kill_after(tiny, target, "ingest.store.register", "insert_row", "model")
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.thorough
def test_the_name_under_which_a_killed_ingest_was_opening_the_atlas_goes_with_the_next(tiny: Tiny, expected: dict, finished: Path, tmp_path: Path) -> None:
    target = finished
    kill_after(tiny, target, "schema.open.store", "_connect")
    (left,) = (p for p in tmp_path.iterdir() if p != target)
    assert target.samefile(left / "a.duckdb")
    assert sums(run(tiny.request(target))) == expected
    assert list(tmp_path.iterdir()) == [target]
