"""Opening an atlas: a process that has one open sees what was published since when it opens it again."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from schema.open import names, store
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.rooms import ROOT


def publish(path: Path, name: str) -> None:
    """Put a snapshot in the place of the one before, as ingest does."""
    draft = write_tiny_atlas(path.with_name("draft.duckdb"))
    con = store.open_writer(draft)
    con.execute("UPDATE model SET name = ?", [name])
    con.close()
    draft.replace(path)


def read_names(con: duckdb.DuckDBPyConnection) -> list[tuple]:
    return con.execute("SELECT name FROM model").fetchall()


@pytest.mark.thorough
@pytest.mark.parametrize("is_linked", [True, False], ids=["by another path", "by its path"])
def test_each_opening_sees_the_snapshot_of_its_time(tmp_path: Path, is_linked: bool) -> None:
    path = tmp_path / "a.duckdb"
    publish(path, "first")
    shown = path
    if is_linked:
        (tmp_path / "elsewhere").mkdir()
        shown = tmp_path / "elsewhere" / "b.duckdb"
        shown.symlink_to(path)
    first = store.open_reader(shown)
    publish(path, "second")
    second = store.open_reader(shown)
    assert (read_names(first), read_names(second)) == ([("first",)], [("second",)])
    assert second.execute("SELECT current_database()").fetchall() == [(shown.stem,)]
    assert [p.name for p in shown.parent.iterdir() if p.name.startswith(".")] == []


@pytest.mark.thorough
def test_a_log_beside_the_file_is_read_with_it(tmp_path: Path) -> None:
    """A file that somebody wrote to and left without closing: what is in its log belongs to it."""
    path = tmp_path / "a.duckdb"
    publish(path, "checkpointed")
    writer = store.open_writer(path)
    writer.execute("SET wal_autocheckpoint = '1GB'")
    writer.execute("UPDATE model SET name = 'logged'")
    left = tmp_path / "left.duckdb"
    for suffix in ("", ".wal"):
        shutil.copy(f"{path}{suffix}", f"{left}{suffix}")
    writer.close()
    con = store.open_reader(left)
    assert read_names(con) == [("logged",)]


HOLDS = """
import sys
from pathlib import Path
from schema.open.names import private_hardlink
with private_hardlink(Path(sys.argv[1])) as name:
    print(name.parent, flush=True)
    input()
"""


def test_a_folder_of_second_names_is_locked_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    path.write_bytes(b"old")
    with names.private_hardlink(path) as name, names.lock_left(name.parent) as handle:
        assert handle is None
    left = tmp_path / f".a.duckdb.opening-{2**22 + 1}-aaaaaaaa"
    left.mkdir()
    (left / "a.duckdb").write_bytes(b"old")
    left.chmod(names.MARKED)
    with names.lock_left(left) as first, names.lock_left(left) as second:
        assert first is not None and second is None


def grow_old(*folders: Path) -> None:
    for folder in folders:
        os.utime(folder, (1, 1))


def test_an_opening_removes_what_one_that_was_killed_left_of_this_file(tmp_path: Path) -> None:
    path, other = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    for each in (path, other):
        each.write_bytes(b"old")
    command = [sys.executable, "-c", HOLDS]
    with subprocess.Popen([*command, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        grow_old(left)
        with names.private_hardlink(path):
            pass
        # it lives, and holds the lock
        assert (left / "a.duckdb").exists()
        process.kill()
    path.unlink()
    path.write_bytes(b"new")
    dead = f".a.duckdb.opening-{2**22 + 1}"
    alive, fresh, kept, none, planted = (
        tmp_path / name for name in (f".a.duckdb.opening-{os.getpid()}-aaaaaaaa", *(f"{dead}-{letter * 8}" for letter in "abcd"))
    )
    of_another = tmp_path / f".b.duckdb.opening-{2**22 + 1}-aaaaaaaa"
    for folder in (alive, fresh, kept, none, planted, of_another):
        folder.mkdir()
        (folder / "a.duckdb").write_bytes(b"old")
        folder.chmod(names.MARKED)
    (kept / "thesis").write_bytes(b"mine")
    # as somebody may call a folder of this user's who may write beside it
    planted.chmod(0o700)
    # as made in a folder that hands its group on
    none.chmod(stat.S_ISGID | names.MARKED)
    # who sends an archive may put a link in it
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("a.duckdb", "a.duckdb.wal"):
        (mine / name).write_bytes(b"mine")
    linked = tmp_path / f"{dead}-eeeeeeee"
    linked.symlink_to(mine)
    os.utime(linked, (0, 0), follow_symlinks=False)
    os.utime(mine, (0, 0))
    grow_old(left, alive, kept, none, planted, of_another)
    with names.private_hardlink(path):
        pass
    found = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file() and p.parent != tmp_path)
    expected = [
        mine / "a.duckdb",
        mine / "a.duckdb.wal",
        alive / "a.duckdb",
        fresh / "a.duckdb",
        kept / "a.duckdb",
        kept / "thesis",
        planted / "a.duckdb",
        of_another / "a.duckdb",
    ]
    assert found == sorted(str(p.relative_to(tmp_path)) for p in expected)
    assert not left.exists()
    assert not none.exists()
    assert sorted(p.name for p in mine.iterdir()) == ["a.duckdb", "a.duckdb.wal"]


def test_a_folder_that_takes_the_place_of_its_own_while_it_is_open_keeps_all_that_is_in_it(tmp_path: Path) -> None:
    path, mine = tmp_path / "a.duckdb", tmp_path / "mine"
    path.write_bytes(b"atlas")
    mine.mkdir()
    (mine / "thesis").write_bytes(b"mine")
    with names.private_hardlink(path) as name:
        moved = tmp_path / "moved"
        name.parent.rename(moved)
        mine.rename(name.parent)
    assert (name.parent / "thesis").read_bytes() == b"mine"
    assert list(moved.iterdir()) == []


def test_a_folder_that_took_the_place_of_its_own_before_it_was_opened_keeps_all_that_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, mine = tmp_path / "a.duckdb", tmp_path / "mine"
    path.write_bytes(b"atlas")
    mine.mkdir(0o700)
    (mine / "a.duckdb").write_bytes(b"mine")
    monkeypatch.setattr(names.tempfile, "mkdtemp", lambda **_: str(mine))
    with names.private_hardlink(path) as name:
        assert name == path
    assert (mine / "a.duckdb").read_bytes() == b"mine"
