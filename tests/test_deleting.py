"""Nothing is removed that was not made here: every place in the source that removes something is in docs/deleting.md, and what is another's stays."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from atlas.beside.retrieval.resuming import forget
from ingest.recorders.key_entries import remove_drafts
from ingest.store.committer import lock_work_folder, remove_work
from ingest.store.doctor import find_aside_path
from schema.errors import AtlasError
from schema.open.locks import hold_lock_file
from tests.rooms import PACKAGES, ROOT

DOCUMENT = ROOT / "docs" / "deleting.md"
ALWAYS = {
    "put_in_place",
    "unlink",
    "rmtree",
    "rmdir",
    "removedirs",
    "write_text",
    "write_bytes",
    "copyfile",
    "copytree",
    "truncate",
    "ftruncate",
    "delete_file",
    "delete_dir",
}
OF_MODULES = {"os": {"remove", "rename", "renames", "replace", "fdopen"}, "shutil": {"copy", "copy2", "move"}}


def removing(file: Path) -> Iterator[int]:
    """Lines of calls that remove, rename over or write over a file."""
    text = file.read_text(encoding="utf-8")
    # what has no path renames columns, and replaces text
    has_paths = "from pathlib import" in text
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
        of = call.func.value.id if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) else ""
        is_of_path = name in ("rename", "replace") and isinstance(call.func, ast.Attribute) and (len(call.args), call.keywords) == (1, []) and has_paths
        modes = [a.value for a in [*call.args, *(k.value for k in call.keywords)] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        is_written = name == "open" and any(re.fullmatch("[rwxabt+]+", mode) and set(mode) & set("wxa+") for mode in modes)
        if name in ALWAYS or name in OF_MODULES.get(of, ()) or is_of_path or is_written:
            yield call.lineno


def test_every_file_that_removes_something_is_named_with_how_it_knows_and_what_shows_it() -> None:
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (.+) \| (.+) \| (.+) \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    found = {file.relative_to(ROOT).as_posix() for package in PACKAGES for file in (ROOT / package).rglob("*.py") if any(removing(file))}
    assert sorted(name for name, *_ in rows) == sorted(found)
    named = [test for *_, tests in rows for test in re.findall(r"`([^`]+)`", tests)]
    assert len(named) >= len(rows)
    assert [test for test in named if not (ROOT / test).is_file()] == []


@pytest.mark.parametrize(
    "line", ["shutil.rmtree(a)", "a.unlink()", "os.replace(a, b)", "a.rename(b)", "open(a, 'w')", "a.open(mode='r+b')", "system.delete_file(a)"]
)
def test_what_removes_is_seen(tmp_path: Path, line: str) -> None:
    file = tmp_path / "a.py"
    file.write_text(f"from pathlib import Path\n{line}\n'a'.replace('b', 'c')\nframe.rename(one=1)\nopen(a)\n")
    assert list(removing(file)) == [2]


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def left(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_somebody_put_into_a_working_folder_meanwhile_stays(tmp_path: Path) -> None:
    with lock_work_folder(tmp_path / "a.duckdb") as work:
        put(work, "atlas.duckdb", "snapshot.tmp", "shards/worker-0/000-00001/manifest.json", "shards/worker-1/.000-00002.77/x.parquet")
        theirs = ["notes.txt", "shards/notes.txt", "shards/mine/000-00001/x", "shards/worker-0/.git/config", "shards/worker-0/thesis.txt"]
        put(work, *theirs)
        remove_work(work)
    assert left(work) == sorted(theirs)
    with lock_work_folder(tmp_path / "b.duckdb") as work:
        put(work, "atlas.duckdb", "shards/worker-0/000-00001/manifest.json", "shards/worker-1/.000-00002.77.old/x.parquet")
        remove_work(work)
    assert not work.exists()


def test_a_file_that_is_called_as_a_lock_is_neither_emptied_nor_removed(tmp_path: Path) -> None:
    put(tmp_path, "a.duckdb.work/lock", "a.lock")
    with pytest.raises(AtlasError, match="is not the lock file of an ingest, and would be overwritten: move it away"), lock_work_folder(tmp_path / "a.duckdb"):
        pass
    with (
        pytest.raises(AtlasError, match="is not empty, so it is no lock file, and locking would remove it: move it away"),
        hold_lock_file(tmp_path / "a.lock", ""),
    ):
        pass
    assert left(tmp_path) == ["a.duckdb.work/lock", "a.lock"]
    assert (tmp_path / "a.duckdb.work" / "lock").read_text() == "a.duckdb.work/lock"


def test_of_keys_and_neighbours_only_their_own_names_go(tmp_path: Path) -> None:
    theirs = [".mine.tmp", "0.parquet", "notes.npz"]
    put(tmp_path / "keys", ".17.parquet.99.tmp", *theirs)
    remove_drafts(tmp_path / "keys")
    put(tmp_path / "work" / "digest", "tune-000000000.npz", "score-000000512.npz.99", *theirs)
    forget(tmp_path / "work" / "digest")
    assert left(tmp_path) == [*(f"keys/{name}" for name in theirs), *(f"work/digest/{name}" for name in theirs)]
    put(tmp_path / "work" / "other", "tune-000000000.npz")
    forget(tmp_path / "work" / "other")
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["digest"]


def test_what_is_set_aside_gets_a_name_whose_log_is_nobody_s(tmp_path: Path) -> None:
    put(tmp_path, "a.duckdb.damaged.wal")
    (tmp_path / "a.duckdb.damaged1").symlink_to("nowhere")
    assert find_aside_path(tmp_path / "a.duckdb").name == "a.duckdb.damaged2"
