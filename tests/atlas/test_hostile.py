"""Statements that were typed to get out of an atlas, or to take the machine with it: each is refused, stopped at a limit, or answered within it."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import atlas
from atlas import AtlasError, QueryRefused
from atlas.beside.annotations import ANNOTATIONS
from atlas.typed import sandbox
from atlas.typed.execution import run_select
from tests.atlas.ending import require_own_end
from tests.waiting import HANG_S

LIMITS = {"timeout": 1.0, "memory": 1 << 30, "max_bytes": 8 << 20, "max_rows": 1_000}

MADE = {
    "refused": [
        "SELECT getenv\0('HOME')",
        "SELECT 1\0; COPY (SELECT 1) TO '$OUT'",
        "EXPLAIN ANALYZE\0COPY (SELECT 1) TO '$OUT'",
        "SELECT getenv('HOME') AS \ud800",
        "SELECT '\ud800'",
        "SELECT\u00a0getenv('HOME')",
        "EXPLAIN\u00a0ANALYZE\u2003COPY (SELECT 1) TO '$OUT'",
        "\ufeffEXPLAIN ANALYZE COPY (SELECT 1) TO '$OUT'",
        "SELECT ｇｅｔｅｎｖ('HOME')",
        f"EXPLAIN {'/*' * 5_000}{'*/' * 5_000} ANALYZE COPY (SELECT 1) TO '$OUT'",
        f"SELECT {'(' * 900}getenv('HOME'){')' * 900}",
        f"SELECT {'list_value(' * 200}getenv('HOME'){')' * 200}",
        f"SELECT {'x' * 1_000_001}",
        ";" * 10_000,
        f"SELECT 1{'; SELECT 1' * 1_000}",
    ],
    "bounded": [
        f"SELECT {'(' * 50_000}1{')' * 50_000}",
        f"SELECT {'[' * 50_000}{']' * 50_000}",
        f"SELECT {'NOT ' * 50_000}TRUE",
        f"SELECT 1{'+1' * 50_000}",
        f"SELECT {'abs(' * 20_000}1{')' * 20_000}",
        f"SELECT {'(SELECT ' * 5_000}1{')' * 5_000}",
        f"SELECT 1{' UNION ALL SELECT 1' * 5_000}",
        f"SELECT 1{'::INTEGER' * 20_000}",
        f"SELECT [1]::INTEGER{'[]' * 20_000}",
        f"SELECT '{'x' * 900_000}'",
        f"SELECT {'9' * 900_000}",
        f"SELECT 1e{'9' * 1_000}",
        f"SELECT 1 WHERE 1 IN ({'1,' * 200_000}1)",
        f"SELECT {', '.join(f'1 AS c{i}' for i in range(20_000))}",
        f"WITH c0 AS (SELECT 1 AS a), {', '.join(f'c{i} AS (FROM c{i - 1} AS x, c{i - 1} AS y)' for i in range(1, 25))} SELECT count(*) FROM c24",
        f"SELECT CASE {'WHEN 1 = 2 THEN 3 ' * 20_000} END",
        f"SELECT * FROM {', '.join(f'range(1000000) AS r{i}' for i in range(500))}",
    ],
    "harmless": [],
}
"""Statements that no line of a file holds."""


def statements(kind: str) -> list[str]:
    """Those of one kind in hostile.txt, as they stand there, and those made above."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (Path(__file__).parent / "hostile.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("-- kind: "):
            lines = found.setdefault(line.split()[2], [])
        elif line:
            lines.append(line)
    return [*found[kind], *MADE[kind]]


@pytest.fixture(scope="module")
def place(tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the atlas and its annotations, in a folder with another file and nothing else."""
    folder = tmp_path_factory.mktemp("hostile")
    path = Path(shutil.copy(tiny_path, folder))
    shutil.copy(ANNOTATIONS.path(tiny_path), folder)
    (folder / "secret.csv").write_text("secret\n1\n")
    return path


@pytest.fixture
def unchanged(place: Path) -> Iterator[None]:
    """After the test every file of the folder is as it was, and no other is there."""
    before = contents(place.parent)
    yield
    assert contents(place.parent) == before


def contents(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def fill_names(statement: str, path: Path) -> str:
    names = {"$FILE": path.parent / "secret.csv", "$OUT": path.parent / "out", "$FOLDER": path.parent, "$ATLAS": path, "$ANNOTATIONS": ANNOTATIONS.path(path)}
    for name, stands_for in names.items():
        statement = statement.replace(name, str(stands_for))
    return statement.replace("⏎", "\n")


def in_process(path: Path, asked: list[str]) -> list[str]:
    """What comes of each: 'answered', or the name of the error's class."""
    with atlas.open(path) as a:
        return [outcome(partial(run_select, a.con, fill_names(s, path), timeout=HANG_S)) for s in asked]


def outcome(ask: Callable[[], object]) -> str:
    try:
        ask()
    except AtlasError as error:
        return type(error).__name__
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "answered"


def in_processes(path: Path, asked: list[str]) -> list[str]:
    """What comes of each in a process of its own."""

    def ask(statement: str) -> str:
        return outcome(lambda: sandbox.run(path, fill_names(statement, path), **LIMITS))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(ask, asked))


def test_there_are_enough_of_them() -> None:
    asked = [s for kind in MADE for s in statements(kind)]
    assert len(asked) == len(set(asked)) > 900


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("part", range(3))
@pytest.mark.usefixtures("unchanged")
def test_what_reaches_beyond_the_atlas_is_refused(place: Path, part: int) -> None:
    asked = statements("refused")[part::3]
    errors = {"AtlasError", "QueryRefused"}
    assert {s[:200]: found for s, found in zip(asked, in_process(place, asked), strict=True) if found not in errors} == {}


@pytest.mark.thorough
@pytest.mark.usefixtures("unchanged")
def test_what_is_odd_is_answered_or_explained(place: Path) -> None:
    asked = statements("harmless")
    outcomes = {"answered", "AtlasError", "QueryRefused"}
    assert {s: found for s, found in zip(asked, in_process(place, asked), strict=True) if found not in outcomes} == {}


@pytest.mark.thorough
@pytest.mark.usefixtures("unchanged")
def test_a_process_refuses_what_reaches_beyond_the_atlas(place: Path, request: pytest.FixtureRequest) -> None:
    asked = statements("refused")[:: 1 if request.config.getoption("--hostile") else 24]
    found = in_processes(place, asked)
    assert {s[:200]: o for s, o in zip(asked, found, strict=True) if o not in ("AtlasError", "QueryRefused", "QueryTimeout")} == {}


@pytest.mark.thorough
@pytest.mark.usefixtures("unchanged")
def test_a_process_ends_at_its_limits(place: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    require_own_end(monkeypatch)
    every = 1 if request.config.getoption("--hostile") else 12
    asked = [*statements("bounded")[::every], *statements("harmless")[:: 5 * every]]
    found = in_processes(place, asked)
    outcomes = ("answered", "AtlasError", "QueryRefused", "QueryTimeout")
    assert {s[:200]: o for s, o in zip(asked, found, strict=True) if o not in outcomes} == {}


@pytest.mark.thorough
def test_what_is_refused_says_why_in_one_line(a: atlas.Atlas) -> None:
    for statement in ("SELECT getenv('HOME')", "FROM read_text('/etc/hostname')", "FROM duckdb_settings()", "SELECT current_setting('memory_limit')"):
        with pytest.raises(QueryRefused, match=r"^refused: the function \w+\. A typed statement reads this atlas and nothing else[^\n]*$"):
            a.sql(statement)
