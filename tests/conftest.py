"""The tiny atlas (tests/atlas/tiny_atlas.py), written once for all tests of what reads an atlas, and the programs that some tests run."""

import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb
import pytest

import atlas
from schema.build import create_tables, install_derived
from schema.open import store
from schema.open.lake import Lake
from tests import features
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.collections.tiny_collections import write_tiny_collections
from tests.atlas.experiments.tiny_experiments import write_tiny_experiments
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.atlas.tiny_suites import add_suites
from tests.pdf import text_of

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

    from tests.lake.servers import Servers


# it finds in /proc what a test has started; without that, pytest-timeout ends the test alone
pytest_plugins = ["tests.limits"] if Path("/proc/self/comm").exists() else []

# Ray's workers are nicer than others, and would wait for the tests of the other processor
os.environ.setdefault("RAY_worker_niceness", "0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lake", action="store_true", help="let the tiny atlas be a lake, with a PostgreSQL and an S3 endpoint of its own")
    parser.addoption("--features", metavar="FOLDER", help="note there which features of the atlas are executed (tests/features.py)")
    parser.addoption("--hostile", action="store_true", help="give every hostile statement a process of its own, and not a sample alone")


def pytest_configure(config: pytest.Config) -> None:
    # a shell that runs the tests in the background lets them, and what they start, ignore Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if folder := config.getoption("--features"):
        os.environ[features.FOLDER] = str(Path(folder).resolve())
        # the process that gives others their tests executes none itself
        if is_one_of_several(config) or not config.getoption("numprocesses", None):
            features.watch()


def has_latex() -> bool:
    """pdflatex and lualatex, and what the tables and their tests load."""
    if not all(map(shutil.which, ("pdflatex", "lualatex", "kpsewhich"))):
        return False
    return subprocess.run(["kpsewhich", "booktabs.sty", "geometry.sty", "lmodern.sty", "fontspec.sty", "luaotfload.sty"], capture_output=True).returncode == 0


PROGRAMS = {"page_text": ("LaTeX (pdflatex, lualatex, lmodern)", has_latex), "chromium": ("Chromium", lambda: shutil.which("chromium"))}
"""Fixtures that run a program which no wheel brings: its name, and whether it is here. `make packages` brings all of them."""

LEFT_OUT = pytest.StashKey[tuple[list[str], list[str]]]()
"""Programs that are not here, and the tests that run them."""


def is_one_of_several(config: pytest.Config) -> bool:
    """Whether another process gives this one its tests, and reports on them."""
    return hasattr(config, "workeroutput")


N_CASES = pytest.StashKey[Counter[str]]()
"""How many cases of a test were collected."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Of a test with the mark `first_cases(n)`, let the cases behind the first n be thorough; with `ci_cases(n)`, long."""
    marks = {later: item.get_closest_marker(name) for name, later in (("first_cases", "thorough"), ("ci_cases", "long"))}
    if not any(marks.values()):
        return
    n_cases = item.config.stash.setdefault(N_CASES, Counter())
    test = item.nodeid.partition("[")[0]
    n_cases[test] += 1
    for later, mark in marks.items():
        if mark is not None and n_cases[test] > mark.args[0]:
            item.add_marker(later)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run for want of a program; where CI is set that is an error."""
    absent = {fixture: name for fixture, (name, is_here) in PROGRAMS.items() if not is_here()}
    left_out = [item for item in items if absent.keys() & getattr(item, "fixturenames", ())]
    if not left_out:
        return
    names = sorted({absent[fixture] for item in left_out for fixture in absent.keys() & item.fixturenames})  # type: ignore[attr-defined]
    if os.environ.get("CI"):
        said = f"{len(left_out)} tests need {' and '.join(names)}, and with CI set none may be left out: `make packages` brings them"
        if not is_one_of_several(config):
            raise pytest.UsageError(said)
        session.shouldstop = said
        return
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT] = (names, [item.nodeid for item in left_out])
    if is_one_of_several(config):
        config.workeroutput["left_out"] = config.stash[LEFT_OUT]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Nothing is run where something is missing that must not be; the process that started this one says what."""
    return bool(session.shouldstop) or None


def pytest_testnodedown(node: "WorkerController") -> None:
    """One of several processes has ended: what it left out, the others have too."""
    # one that broke off has said nothing
    if hasattr(node, "workeroutput"):
        node.config.stash[LEFT_OUT] = node.workeroutput.get("left_out", ([], []))


def pytest_unconfigure(config: pytest.Config) -> None:
    """What was left out, after everything else."""
    names, tests = config.stash.get(LEFT_OUT, ((), ()))
    if is_one_of_several(config):
        return
    for test in tests:
        config.get_terminal_writer().line(f"LEFT OUT {test}")
    if tests:
        command = "`sudo make packages` brings them" if shutil.which("apt-get") else "install them, and run again"
        config.get_terminal_writer().line(f"{len(tests)} tests were left out, named above, for want of {' and '.join(names)}: {command}.")


@pytest.fixture(scope="session")
def servers() -> Iterator["Servers"]:
    """A PostgreSQL and an S3 endpoint, which this process is told of as a user would tell it."""
    from tests.lake.servers import serving

    # not among pytest's folders: another session takes from them the access that PostgreSQL's own user has
    with TemporaryDirectory(prefix="servers-") as folder, serving(Path(folder)) as started, pytest.MonkeyPatch.context() as patched:
        for name, value in started.environment.items():
            patched.setenv(name, value)
        yield started


@pytest.fixture(scope="session")
def tiny_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_tiny_atlas(tmp_path_factory.mktemp("tiny") / "tiny.duckdb")
    if request.config.getoption("--lake"):
        from tests.lake.pushed import push

        started = request.getfixturevalue("servers")
        path = push(path, path.with_suffix(".lake"), Lake(started.catalogue("tiny"), started.data("tiny")))
    write_tiny_annotations(path)
    write_tiny_collections(path)
    write_tiny_experiments(path)
    write_tiny_retrievals(path)
    return path


@pytest.fixture(scope="session")
def suites_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny atlas with tests in it, which are a corpus more."""
    path = write_tiny_atlas(tmp_path_factory.mktemp("suites") / "suites.duckdb")
    with duckdb.connect(path) as con:
        add_suites(con)
    write_tiny_annotations(path)
    return path


@pytest.fixture
def page_text(tmp_path: Path) -> Callable[..., str]:
    """The text of the pages that LaTeX makes of a source; any error of LaTeX fails the test."""

    def compiled(source: str, engine: str = "pdflatex") -> str:
        (tmp_path / "t.tex").write_text(source, encoding="utf-8")
        command = [engine, "-halt-on-error", "-interaction=nonstopmode", "t.tex"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert ran.returncode == 0, ran.stdout[-1500:]
        return text_of(tmp_path / "t.pdf")

    return compiled


@pytest.fixture(scope="module")
def a(tiny_path: Path) -> Iterator[atlas.Atlas]:
    """One open atlas for all tests of a file, who ask and change nothing."""
    with atlas.open(tiny_path) as opened:
        yield opened


@pytest.fixture
def tiny_copy(tiny_path: Path, tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A copy that a test may change."""
    con = duckdb.connect(shutil.copy(tiny_path, tmp_path / "copy.duckdb"))
    yield con
    con.close()


@pytest.fixture(scope="session")
def empty_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An atlas with every table and no rows."""
    path = tmp_path_factory.mktemp("empty") / "empty.duckdb"
    with closing(store.open_writer(path)) as con:
        # in one transaction, or the disk is waited for after each statement
        con.execute("BEGIN")
        create_tables(con, 2)
        install_derived(con)
        con.execute("COMMIT")
        con.execute("CHECKPOINT")
    return path


@pytest.fixture
def empty_path(empty_original: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copy(empty_original, tmp_path))


@pytest.fixture
def empty_atlas(empty_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect(str(empty_path))
    yield con
    con.close()
