"""A retrieval that is killed goes on with the queries that it had not come to, and ends with the same rows."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import atlas
from atlas.beside.retrieval import RETRIEVALS, search
from atlas.beside.retrieval.resuming import Batches, forget, work_folder
from atlas.beside.retrieval.search import Neighbours
from atlas.cli.main import cli
from schema.errors import AtlasError
from schema.key_files import keys_folder
from tests.atlas.retrieval.stores import Text, write_atlas

LENGTH, N_DOCUMENTS, AT_ONCE, N_QUERIES = 30, 5, 20, 90
N_BATCHES = 2 * -(-N_QUERIES // AT_ONCE)
ASKED = ["--store", "0", "--tune", "1", "--test", "2", "--queries", str(N_QUERIES), "--k", "16"]
TABLES = ("knn_query", "knn_prediction", "knn_neighbour", "position_text", "token_text")
ROW = {"store_sha256": "s", "n_queries": 9, "is_training_text": True, "versions": {"numpy": "2"}}

KILLED = """
import os, signal, sys
from atlas.cli.main import run
from atlas.beside.retrieval import search
from atlas.beside.retrieval.resuming import Batches

save, saved = Batches.save, []

def kill_after(self, rows, found):
    save(self, rows, found)
    saved.append(rows)
    if len(saved) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

Batches.save, search.QUERIES_AT_ONCE = kill_after, int(sys.argv[2])
run(sys.argv[3:], True)
"""


def text(seed: int) -> Text:
    generator = np.random.default_rng(seed)
    n = LENGTH * N_DOCUMENTS
    surprisals = generator.uniform(0.5, 3, n).astype(np.float32)
    return Text(LENGTH, generator.normal(0, 3, (n, 8)), generator.integers(0, 20, n), surprisals, [f"text {seed} {i}" for i in range(N_DOCUMENTS)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_atlas(tmp_path_factory.mktemp("made") / "a.duckdb", [text(0), text(1), text(2)])


def copied(made: Path, folder: Path) -> Path:
    shutil.copytree(keys_folder(made), keys_folder(folder / made.name))
    return Path(shutil.copy(made, folder))


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return copied(made, tmp_path)


@contextmanager
def counting() -> Iterator[list[int]]:
    """Queries of each batch that is searched in this process."""
    found: list[int] = []
    measured = search.select_nearest

    def counted(store: search.Store, queries: search.Queries, candidates: np.ndarray, k: int) -> Neighbours:
        found.append(len(queries.keys))
        return measured(store, queries, candidates, k)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "select_nearest", counted)
        patched.setattr(search, "QUERIES_AT_ONCE", AT_ONCE)
        yield found


@pytest.fixture
def searched() -> Iterator[list[int]]:
    with counting() as found:
        yield found


@pytest.fixture(scope="module")
def whole(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple]]:
    """Rows of a retrieval that nobody killed."""
    path = copied(made, tmp_path_factory.mktemp("whole"))
    with counting() as searched:
        assert retrieve(path).exit_code == 0
    assert len(searched) == N_BATCHES and sum(searched) == 2 * N_QUERIES
    assert not work(path).exists()
    return rows(path)


def retrieve(path: Path, *more: str) -> Result:
    return CliRunner().invoke(cli, ["retrieve", str(path), *ASKED, *more])


def killed_after(path: Path, n: int) -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED, str(n), str(AT_ONCE), "retrieve", str(path), *ASKED], capture_output=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr


def rows(path: Path) -> dict[str, list[tuple]]:
    with atlas.open(path) as a:
        return {name: a.sql(f"SELECT * FROM retrievals.{name} ORDER BY ALL").rows() for name in TABLES}


def work(path: Path) -> Path:
    return path.with_name("a.retrievals.duckdb.work")


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, N_BATCHES // 2 + 2, N_BATCHES])
def test_a_retrieval_that_is_killed_goes_on_where_it_was(path: Path, whole: dict[str, list[tuple]], searched: list[int], n: int) -> None:
    killed_after(path, n)
    assert not RETRIEVALS.path(path).exists()
    assert len(list(work(path).glob("*/*.npz"))) == n
    assert retrieve(path).exit_code == 0
    assert len(searched) == N_BATCHES - n
    assert rows(path) == whole
    assert not work(path).exists()


@pytest.mark.thorough
def test_another_retrieval_takes_nothing_of_it(path: Path, searched: list[int]) -> None:
    killed_after(path, 2)
    assert retrieve(path, "--seed", "1").exit_code == 0
    assert len(searched) == N_BATCHES
    assert len(list(work(path).glob("*/*.npz"))) == 2
    searched.clear()
    # what is said of the text changes no neighbour
    assert retrieve(path, "--trained-on").exit_code == 0
    assert len(searched) == N_BATCHES - 2
    assert not work(path).exists()


@pytest.mark.thorough
def test_what_was_kept_is_no_more_once_the_retrieval_is(path: Path, searched: list[int]) -> None:
    """Killed after the retrieval was kept, before its neighbours were removed."""
    killed_after(path, 3)
    (folder,) = work(path).iterdir()
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert retrieve(path).exit_code == 0
    folder.mkdir(parents=True)
    for name, data in kept.items():
        (folder / name).write_bytes(data)
    searched.clear()
    assert "has the same settings and is stored already" in retrieve(path).stderr
    assert searched == [] and not work(path).exists()


@pytest.mark.thorough
def test_a_refused_retrieval_leaves_nothing(tmp_path: Path) -> None:
    """Every query is a copy of an entry."""
    tune = replace(text(0), texts=[f"another {i}" for i in range(N_DOCUMENTS)])
    path = write_atlas(tmp_path / "a.duckdb", [text(0), tune, text(2)])
    failed = retrieve(path)
    assert "half of the queries are copies" in str(failed.exception)
    assert not work(path).exists()


def found() -> Neighbours:
    return Neighbours(np.array([[1.0, np.inf]], np.float32), np.array([[7, -1]]), np.array([[3, -1]], np.int32))


def test_neighbours_come_back_as_they_were(tmp_path: Path) -> None:
    batches, rows = Batches(tmp_path / "w" / "x", "tune", np.array([4, 5])), slice(1, 2048)
    assert batches.load(rows) is None
    batches.save(rows, found())
    got = batches.load(rows)
    assert got is not None
    for column, wanted in zip(got, found(), strict=True):
        assert column.dtype == wanted.dtype and (column == wanted).all()
    assert Batches(tmp_path / "w" / "x", "test", np.array([4, 5])).load(rows) is None
    forget(tmp_path / "w" / "x")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("damage", [b"", b"PK", b"no file of neighbours", None])
def test_what_is_cut_or_of_other_queries_is_looked_for_again(tmp_path: Path, damage: bytes | None) -> None:
    batches, rows = Batches(tmp_path, "tune", np.array([4])), slice(0, 2048)
    batches.save(rows, found())
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-40] if damage is None else damage)
    assert batches.load(rows) is None
    file.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    assert batches.load(rows) is None
    file.write_bytes(data)
    assert batches.load(rows) is not None
    assert Batches(tmp_path, "tune", np.array([5])).load(rows) is None


def test_what_somebody_has_planted_is_not_expanded_and_has_the_form_of_neighbours(tmp_path: Path) -> None:
    batches, rows, one = Batches(tmp_path, "tune", np.array([4])), slice(0, 2048), found()._asdict()
    batches.save(rows, found())
    (file,) = tmp_path.iterdir()
    np.savez_compressed(file.open("wb"), queries=np.array([4]), **one)
    assert batches.load(rows) is None
    for wrong in (np.zeros((2, 2)), np.zeros(2), np.zeros((1, 1, 2))):
        np.savez(file.open("wb"), queries=np.array([4]), **{**one, "distances": wrong})
        assert batches.load(rows) is None
    np.savez(file.open("wb"), queries=np.array([4]), **one)
    assert batches.load(rows) is not None


def test_a_folder_that_cannot_be_written_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(AtlasError, match="cannot write the neighbours found so far to .*file/x: Not a directory"):
        Batches(tmp_path / "file" / "x", "tune", np.array([4])).save(slice(0, 1), found())


def test_the_folder_is_of_all_that_neighbours_depend_on() -> None:
    path = Path("x/a.duckdb")
    folder = work_folder(path, ROW)
    assert folder.parent == Path("x/a.retrievals.duckdb.work")
    assert folder == work_folder(path, {**ROW, "is_training_text": None})
    for change in ({"store_sha256": "t"}, {"n_queries": 8}, {"versions": {"numpy": "3"}}):
        assert work_folder(path, {**ROW, **change}) != folder
