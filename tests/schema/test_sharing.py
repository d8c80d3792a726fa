"""Several people and processes at one atlas: nobody's file shuts it to others, nobody's change is lost."""

import os
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pytest
from click.testing import CliRunner

import atlas
from atlas import AtlasError
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.adding import add
from atlas.beside.annotations.steps import propose
from atlas.beside.annotations.subjects import Address, Pattern, read_shown_items
from atlas.beside.collections import COLLECTIONS, keeping, members
from atlas.cli.main import cli
from schema.open import drafts, open_with_beside
from schema.open.change import change_companion
from schema.open.store import open_reader, open_writer
from tests.atlas.collections.tiny_collections import write_tiny_collections
from tests.atlas.tiny_atlas import split_sequences

NOBODY = 65534
EDIT = """
import sys
import atlas
for i in range(6):
    with atlas.open(sys.argv[1]) as a:
        a.collect(f"of {sys.argv[2]}", [f"L{i % 3}N{i % 4}"], by="ada")
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is two users")


@pytest.fixture
def path(tiny_path: Path) -> Iterator[Path]:
    """The tiny atlas with annotations and collections, in a folder where every user may write."""
    # not among pytest's folders: another session of it takes others' access from them
    with TemporaryDirectory(prefix="shared-") as folder:
        Path(folder).chmod(0o777)
        copy = Path(shutil.copy(tiny_path, Path(folder) / "tiny.duckdb"))
        copy.chmod(0o664)
        shutil.copy(ANNOTATIONS.path(tiny_path), ANNOTATIONS.path(copy))
        write_tiny_collections(copy)
        yield copy


@contextmanager
def user(uid: int) -> Iterator[None]:
    """This process as another user, what it has loaded included."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@as_root
def test_a_private_file_beside_a_shared_atlas_is_left_out_and_said(path: Path) -> None:
    COLLECTIONS.path(path).chmod(0o600)
    said = "tiny.collections.duckdb is not shown, because you may not read it: ask root to run `chmod --reference=tiny.duckdb tiny.collections.duckdb`"
    with user(NOBODY), atlas.open(path) as a:
        assert a.collections().is_empty()
        assert a.geva2021_fig2().height > 0
        assert said in a.status().notes
    ask = ["ask", "geva2021_fig2", "--db", str(path)]
    # what a command imports may lie where nobody else reads
    notes = CliRunner().invoke(cli, ask).stderr
    with user(NOBODY):
        ran = CliRunner().invoke(cli, ask)
    assert (ran.exit_code, ran.stderr) == (0, f"note: {said}\n{notes}")
    with user(NOBODY), pytest.raises(AtlasError, match=r"cannot read the collections in .*tiny\.collections\.duckdb"), change_companion(COLLECTIONS, path):
        pass
    with atlas.open(path) as a:
        assert a.collections().height == 2


@as_root
def test_what_is_made_beside_an_atlas_may_be_read_by_whom_it_may(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)
    before = os.umask(0o077)
    try:
        for file in (ANNOTATIONS.path(path), COLLECTIONS.path(path)):
            file.unlink()
        write_tiny_collections(path)
        made = COLLECTIONS.path(path)
        # root's work in somebody's folder
        assert (mode(made), made.stat().st_uid, made.stat().st_gid) == (0o664, NOBODY, NOBODY)
        made.chmod(0o640)
        os.chown(made, 1234, 1234)
        with change_companion(COLLECTIONS, path) as con:
            con.execute("DELETE FROM collections.collection_member")
        assert (mode(made), made.stat().st_uid, made.stat().st_gid) == (0o640, 1234, 1234)
    finally:
        os.umask(before)


@as_root
def test_the_rights_of_a_group_are_given_to_no_other(path: Path) -> None:
    made = COLLECTIONS.path(path)
    os.chown(made, NOBODY, 4321)
    made.chmod(0o660)
    with user(NOBODY), change_companion(COLLECTIONS, path) as con:
        con.execute("DELETE FROM collections.collection_member")
    assert (mode(made), made.stat().st_gid) == (0o600, NOBODY)


@as_root
def test_a_lock_that_a_killed_change_left_shuts_out_nobody(path: Path) -> None:
    before = os.umask(0o077)
    lock = path.with_name("tiny.collections.duckdb.lock")
    code = "import os, sys\nfrom schema.open.locks import hold_lock_file\nfrom pathlib import Path\n"
    code += "with hold_lock_file(Path(sys.argv[1]), ''):\n    os._exit(9)"
    try:
        assert subprocess.run([sys.executable, "-c", code, str(lock)], check=False).returncode == 9
    finally:
        os.umask(before)
    assert lock.exists()
    # what another keeps there stays, and is no hindrance
    path.parent.chmod(0o1777)
    COLLECTIONS.path(path).unlink()
    with user(NOBODY):
        write_tiny_collections(path)
        assert lock.exists()
        with atlas.open(path) as a:
            assert a.collections().height == 2


@as_root
def test_a_draft_that_anothers_killed_change_left_in_a_sticky_folder_is_in_nobodys_way(path: Path) -> None:
    left = path.with_name(f".tiny.collections.duckdb.{'0af' * 5}0.tmp")
    left.write_bytes(b"half")
    COLLECTIONS.path(path).unlink()
    path.parent.chmod(0o1777)
    with user(NOBODY):
        write_tiny_collections(path)
    assert left.exists()


@as_root
def test_a_change_in_a_sticky_folder_is_kept_where_the_file_is_anothers(path: Path) -> None:
    path.parent.chmod(0o1777)
    made = COLLECTIONS.path(path)
    before = made.read_bytes()
    said = r"is unchanged: only root may replace it here .* The changed file is stored as "
    with user(NOBODY), pytest.raises(AtlasError, match=said) as refused, change_companion(COLLECTIONS, path) as con:
        con.execute("DELETE FROM collections.collection WHERE name = 'cats'")
    assert made.read_bytes() == before
    # the command that is printed
    assert subprocess.run(str(refused.value).rpartition("`mv ")[2].removesuffix("`").join(("mv ", "")), shell=True, check=True).returncode == 0
    with atlas.open(path) as a:
        assert a.collections()["name"].to_list() == ["Vidé (2)"]


def test_an_atlas_that_is_renamed_alone_is_told_what_it_left(path: Path) -> None:
    renamed = path.rename(path.with_name("re named.duckdb"))
    # of another atlas in the folder
    shutil.copy(renamed, path.with_name("other.duckdb"))
    shutil.copy(ANNOTATIONS.path(path), ANNOTATIONS.path(path.with_name("other.duckdb")))
    notes = [
        f"tiny.{kind}.duckdb belongs to no atlas in this folder: "
        f"if this atlas had that name, `mv tiny.{kind}.duckdb 're named.{kind}.duckdb'` renames the file to match"
        for kind in ("annotations", "collections")
    ]
    with atlas.open(renamed) as a:
        assert a.status().notes == notes
        assert a.collections().is_empty()
    for note in notes:
        subprocess.run(note.split("`")[1], shell=True, cwd=path.parent, check=True)
    with atlas.open(renamed) as a:
        assert a.status().notes == []
        assert a.collections().height == 2


def test_a_full_disk_is_called_a_full_disk_and_not_a_file_that_cannot_be_read(path: Path) -> None:
    """Where its rows are written anew, to be read by this release or to be changed."""
    with change_companion(COLLECTIONS, path) as con:
        con.execute("INSERT INTO collections.collection SELECT i, repeat(md5(i::TEXT), 9), '', 'eve', now() FROM range(10, 20_000) AS t (i)")
        con.execute("UPDATE collections.collection_schema SET derived_sha256 = 'older'")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    said = r"no space left to rewrite the collections of .*tiny\.collections\.duckdb: free some space on its disk, or on that of "
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
        with pytest.raises(AtlasError, match=said):
            atlas.open(path)
        with pytest.raises(AtlasError, match=rf"{said}|cannot be written, and is unchanged"), change_companion(COLLECTIONS, path):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with atlas.open(path) as a:
        assert a.collections().height == 19_992


@pytest.mark.thorough
def test_of_four_processes_that_edit_at_once_none_is_refused(path: Path) -> None:
    others = [subprocess.Popen([sys.executable, "-c", EDIT, str(path), str(i)], stderr=subprocess.PIPE, text=True) for i in range(4)]
    assert [(other.communicate()[1], other.returncode) for other in others] == [("", 0)] * 4
    with atlas.open(path) as a:
        assert dict(a.collections().select("name", "n_members").rows()) == {"cats": 5, "Vidé (2)": 0, **{f"of {i}": 6 for i in range(4)}}


APART = """
import sys
from contextlib import closing
from pathlib import Path

import atlas
from atlas.beside.collections import COLLECTIONS
from schema.open.beside import attach_file
from schema.open.store import open_writer

def refuse(*_):
    raise PermissionError

path = Path(sys.argv[1])
Path.hardlink_to = refuse
with atlas.open(path):
    for _ in range(300):
        with closing(open_writer(":memory:")) as con:
            attach_file(con, COLLECTIONS.path(path), COLLECTIONS)
"""


@pytest.mark.thorough
def test_a_file_is_attached_apart_however_often_it_was_before(path: Path) -> None:
    """Asked with IF NOT EXISTS, DuckDB 1.5.5 hangs at the 20th to 40th of such databases, while an atlas has the file open."""
    assert subprocess.run([sys.executable, "-c", APART, str(path)], timeout=240, check=False).returncode == 0


@pytest.mark.thorough
def test_what_of_no_second_name_can_be_made_is_opened_as_it_is_now(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file of another's, to which Linux makes no second link: what an open atlas has attached is not what the next finds."""
    split_sequences(path, 0)
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: refuse())
    key = Address("key", 0, 0, 0)
    with atlas.open(path) as a, closing(open_reader(path)):
        ranks = tuple(item.rank for item in read_shown_items(a.con, [key])[key])
        assert [add(a.con, path, key, "zoe", Pattern("shallow", "once more", ranks)) for _ in range(2)] == [1, 2]
        assert [keeping.add(a.con, path, "cats", [members.position(3)], by="bea") for _ in range(2)] == [(1, 0), (0, 1)]
        assert keeping.remove(path, "cats", [members.position(3)]) == 1
        with atlas.open(path, memory="1GB") as other:
            assert other.annotated_patterns(annotator="zoe")["description"].to_list() == ["once more", "once more"]
            assert "zoe" not in a.annotated_patterns()["annotator"].to_list()
        before = a.sql("SELECT a.annotation_id FROM annotations.annotation AS a WHERE a.annotator <> 'miner'").height
        propose(a.con, path, 4, 0, 0)
        propose(a.con, path, 1, 0, 0)
        assert add(a.con, path, key, "carl", Pattern("shallow", "carl's", ranks)) == 1
        propose(a.con, path, 1, 0, 0)
    with atlas.open(path) as a:
        assert a.sql("SELECT a.annotation_id FROM annotations.annotation AS a WHERE a.annotator <> 'miner'").height == before + 2


def refuse() -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("put", [Path.symlink_to, Path.hardlink_to, lambda draft, secret: secret.rename(draft)], ids=["symbolic", "hard", "renamed"])
def test_what_gets_a_drafts_name_is_nobodys_change(path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable) -> None:
    """Who may write to the folder may rename what lies there."""
    secret = path.with_name("secret")
    secret.write_text("key")
    secret.chmod(0o600)
    was, before, taken = secret.stat(), COLLECTIONS.path(path).read_bytes(), path.with_name("taken")

    def replace(descriptor: int, like: os.stat_result) -> None:
        (draft,) = path.parent.glob(".*.tmp")
        draft.rename(taken)
        put(draft, secret)
        give_access(descriptor, like)

    give_access = drafts.give_access
    monkeypatch.setattr(drafts, "give_access", replace)
    with (
        pytest.raises(AtlasError, match="another user, who may write to this folder too, put another file in the place of the draft"),
        change_companion(COLLECTIONS, path),
    ):
        pass
    (there,) = [p for p in (secret, *path.parent.glob(".*.tmp")) if p.is_file() and not p.is_symlink() and p.stat().st_ino == was.st_ino][:1]
    assert (there.read_text(), mode(there), there.stat().st_uid, COLLECTIONS.path(path).read_bytes()) == ("key", 0o600, was.st_uid, before)


def test_while_a_change_is_made_nothing_of_it_lies_where_others_rename(path: Path) -> None:
    with change_companion(COLLECTIONS, path) as con:
        con.execute("DELETE FROM collections.collection_member")
        (file,) = (Path(name) for (name,) in con.execute("SELECT path FROM duckdb_databases() WHERE database_name = 'collections'").fetchall())
        assert (file.parent != path.parent, stat.S_IMODE(file.parent.stat().st_mode)) == (True, 0o700)
        assert not list(path.parent.glob(".*.tmp"))
    assert not file.parent.exists()


def test_an_atlas_that_is_replaced_while_it_is_opened_keeps_what_is_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(weights: str) -> None:
        draft = Path(shutil.copy(path, path.with_name("new.duckdb")))
        with closing(open_writer(draft)) as con:
            con.execute("UPDATE model SET weights_sha256 = ?", [weights])
        draft.rename(path)

    def ask(con: duckdb.DuckDBPyConnection, at: Path) -> dict:
        found = others_by_kind(con, at)
        if not n_asked:
            publish("ww")
        n_asked.append(len(found))
        return found

    n_asked: list[int] = []
    others_by_kind = open_with_beside.others_by_kind
    publish("other")
    monkeypatch.setattr(open_with_beside, "others_by_kind", ask)
    with atlas.open(path) as a:
        assert a.collections().height == 2
        assert a.geva2021_fig2().height == 2
    assert n_asked == [2, 0]
