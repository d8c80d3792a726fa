"""Opening an atlas: a process that has one open sees what was published since when it opens it again."""

import shutil
from pathlib import Path

import pytest

from schema import store
from tests.atlas.tiny_atlas import write_tiny_atlas


def publish(path: Path, name: str) -> None:
    """Put a snapshot in the place of the one before, as ingest does."""
    draft = write_tiny_atlas(path.with_name("draft.duckdb"))
    con = store.open_writer(draft)
    con.execute("UPDATE model SET name = ?", [name])
    con.close()
    draft.replace(path)


def names(con) -> list[tuple]:
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
    assert (names(first), names(second)) == ([("first",)], [("second",)])
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
    assert names(con) == [("logged",)]
