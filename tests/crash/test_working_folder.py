"""What a hand or a tool that copies files can do to the folder in which an atlas is made: the doctor mends it, or says what is to be done."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from atlas.cli.main import run as atlas_command
from ingest.store.committer import lock_work_folder, remove_work, staging_folder, work_folder
from ingest.store.shards import write_shard
from schema.errors import AtlasError
from tests.crash.conftest import ask_doctor, sums
from tests.crash.test_faults import repaired, staged
from tests.exact.tiny import Tiny, run


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("place", ["shards/worker-0/notes.txt", "shards/notes.txt", "shards/worker-0/my folder/notes.txt"])
def test_a_stray_file_among_the_shards_is_kept_elsewhere(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path], place: str) -> None:
    target = interrupted("shard")
    path = work_folder(target) / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    repaired(target)
    (kept,) = (p for p in target.parent.glob("a.duckdb.*.damaged"))
    assert (kept if kept.is_file() else kept / "notes.txt").read_text() == "mine"
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.thorough
def test_a_hidden_file_among_the_shards_is_no_hindrance(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path]) -> None:
    target = interrupted("shard")
    (staged(target).parent / ".DS_Store").write_bytes(b"of a file manager")
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.long
def test_a_worker_or_all_of_them_that_are_files_are_set_aside(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path]) -> None:
    for place in ("shards/worker-0", "shards"):
        target = interrupted("log")
        path = work_folder(target) / place
        shutil.rmtree(path)
        path.write_bytes(b"")
        assert "was not made by the ingest" in repaired(target)
        assert sums(run(tiny.request(target))) == expected
        shutil.rmtree(target.parent)


@pytest.mark.parametrize(
    ("damage", "said"),
    [("file", "is a file in the place of the"), ("link", "is a symbolic link to nothing"), ("lock", "is a folder, and should be the file that locks")],
)
def test_what_is_in_the_place_of_the_working_folder_or_its_lock_is_said(tiny: Tiny, tmp_path: Path, damage: str, said: str) -> None:
    target, work = tmp_path / "a.duckdb", tmp_path / "a.duckdb.work"
    if damage == "file":
        work.write_text("mine")
    elif damage == "link":
        work.symlink_to(tmp_path / "nowhere")
    else:
        (work / "lock").mkdir(parents=True)
    with pytest.raises(AtlasError, match=said):
        run(tiny.request(target))
    for options in ((), ("--repair",)):
        assert said in str(ask_doctor(target, *options).exception)
    assert [p.name for p in tmp_path.iterdir()] == ["a.duckdb.work"]


def test_what_somebody_keeps_in_the_place_of_the_working_folder_stays(tiny: Tiny, tmp_path: Path) -> None:
    """A folder that the name leads to, or the name itself: neither is emptied."""
    mine = tmp_path / "mine"
    (mine / "sub").mkdir(parents=True)
    (mine / "thesis.txt").write_text("x")
    work = tmp_path / "a.duckdb.work"
    work.symlink_to(mine)
    with pytest.raises(AtlasError, match="the working folder of .* is a symbolic link"):
        run(tiny.request(tmp_path / "a.duckdb"))
    work.unlink()
    mine.rename(work)
    with pytest.raises(AtlasError, match=r"a\.duckdb\.work contains sub, thesis\.txt, which no ingest makes"):
        run(tiny.request(tmp_path / "a.duckdb"))
    assert sorted(p.name for p in work.iterdir()) == ["lock", "sub", "thesis.txt"]


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("place", ["shards", "shards/worker-1"])
def test_a_link_among_the_shards_leads_nobody_astray(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path], tmp_path: Path, place: str) -> None:
    mine = tmp_path / "mine"
    (mine / ".git").mkdir(parents=True)
    (mine / "worker-0" / ".git").mkdir(parents=True)
    target = interrupted("log")
    path = work_folder(target) / place
    if path.exists():
        shutil.rmtree(path)
    path.symlink_to(mine)
    with pytest.raises(AtlasError, match="is a symbolic link in the place of a folder of shards"):
        run(tiny.request(target))
    assert "was not made by the ingest" in repaired(target)
    assert sums(run(tiny.request(target))) == expected
    assert sorted(p.relative_to(mine).as_posix() for p in mine.rglob("*")) == [".git", "worker-0", "worker-0/.git"]


@pytest.mark.thorough
def test_a_shard_of_a_run_that_is_not_there_is_computed_with_its_run(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path]) -> None:
    target = interrupted("log")
    (shard,) = (p for p in (work_folder(target) / "shards" / "worker-0").iterdir() if not p.name.startswith("."))
    manifest = shard / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"run_id": 90}))
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.ci_cases(2)
@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["another column", "a column less", "a NULL", "another table", "another type"])
def test_a_shard_of_the_right_digest_and_wrong_tables_is_computed_again(tiny: Tiny, expected: dict, interrupted: Callable[[str], Path], damage: str) -> None:
    target = interrupted("shard")
    shard = staged(target)
    manifest = json.loads((shard / "manifest.json").read_text())
    tables = {name: pq.read_table(shard / f"{name}.parquet") for name in manifest["n_rows"]}
    name = "position" if "position" in tables else min(tables)
    table = tables[name]
    column = table.column_names[0]
    changed = {
        "another column": lambda: table.append_column("mine", pa.nulls(len(table), pa.int32())),
        "a column less": lambda: table.drop_columns([column]),
        "a NULL": lambda: table.set_column(0, column, pa.nulls(len(table), table.schema.field(0).type)),
        "another table": lambda: table,
        "another type": lambda: table.set_column(0, column, pa.array(["mine"] * len(table))),
    }[damage]()
    tables["mine" if damage == "another table" else name] = changed
    shutil.rmtree(shard)
    # a name that is no table's is refused as soon as the shard is read
    is_named = damage != "another table"
    with nullcontext() if is_named else pytest.raises(AtlasError, match="is damaged"):
        write_shard(shard.parent, manifest["run_id"], manifest["shard_id"], tables)
    with pytest.raises(AtlasError, match="atlas doctor"):
        run(tiny.request(target))
    assert ("its tables do not fit into an atlas" if is_named else "its files do not match its manifest") in repaired(target)
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("other", ["of less", "of another model", "no atlas"])
def test_another_atlass_working_file_does_not_replace_this_one(tiny: Tiny, expected: dict, finished: Path, tmp_path: Path, other: str) -> None:
    target, work = finished, tmp_path / "a.duckdb.work"
    work.mkdir()
    if other == "of less":
        run(tiny.request(work / "atlas.duckdb", trace=0, paper=False))
    else:
        shutil.copyfile(target, work / "atlas.duckdb")
        with closing(duckdb.connect(str(work / "atlas.duckdb"))) as con:
            con.execute("DROP TABLE shard" if other == "no atlas" else "UPDATE model SET weights_sha256 = 'other'")
    before = target.read_bytes()
    with pytest.raises(AtlasError, match="atlas doctor"):
        run(tiny.request(target))
    assert target.read_bytes() == before
    repaired(target)
    assert target.with_name("a.duckdb.working.damaged").exists()
    assert sums(run(tiny.request(target))) == expected


@pytest.mark.thorough
def test_a_shard_that_waits_is_said_and_is_no_fault(interrupted: Callable[[str], Path]) -> None:
    target = interrupted("shard")
    for options, ending in (((), "nothing to mend"), (("--repair",), "nothing more to mend")):
        said: Result = ask_doctor(target, *options)
        assert said.output == f"shards that wait to be loaded: 1\n    to do: run the ingest again: it loads them\n{target}: {ending}\n"
        assert said.exit_code == 0
    assert staged(target).exists()


def test_a_text_of_standard_input_cut_short_is_removed(tiny: Tiny, tmp_path: Path) -> None:
    target, part = tmp_path / "a.duckdb", tmp_path / "a.duckdb.work" / "stdin.partial"
    part.parent.mkdir()
    part.write_text("the first of")
    assert str(part) in repaired(target)
    assert not part.exists()
    with lock_work_folder(target) as work:
        remove_work(work)


def test_the_command_says_each_in_one_line(tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "a.duckdb.work").write_text("mine")
    assert staging_folder(work_folder(tmp_path / "a.duckdb")) == tmp_path / "a.duckdb.work" / "shards"
    for arguments in (["doctor", "--repair"], ["ingest", "--quiet", "--model", str(tiny.folder)]):
        assert atlas_command([arguments[0], str(tmp_path / "a.duckdb"), *arguments[1:]], is_debug=False) == 1
        said = capsys.readouterr().err
        assert said.startswith("Error: ") and said.count("\n") == 1 and "unexpected" not in said


@pytest.mark.parametrize("kind", ["link", "dangling", "second name", "pipe", "large"])
def test_a_lock_that_is_none_is_refused_and_what_it_leads_to_is_as_it_was(tmp_path: Path, kind: str) -> None:
    target, mine = tmp_path / "a.duckdb", tmp_path / "mine"
    lock = work_folder(target) / "lock"
    lock.parent.mkdir()
    if kind != "dangling":
        mine.write_text("" if kind == "second name" else "PID list: precious")
    if kind in ("link", "dangling"):
        lock.symlink_to(mine)
    elif kind == "second name":
        lock.hardlink_to(mine)
    elif kind == "pipe":
        os.mkfifo(lock)
    else:
        with lock.open("wb") as file:
            file.truncate(2**30)
    before = mine.read_bytes() if mine.exists() else None
    with pytest.raises(AtlasError, match="would be overwritten"), lock_work_folder(target):
        pass
    assert (mine.read_bytes() if mine.exists() else None) == before
