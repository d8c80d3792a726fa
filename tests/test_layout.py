"""What lies where, and who may touch what: the rules of docs/architecture.md that import-linter cannot see."""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import schema
from atlas.cli.main import COMMANDS
from ingest.passes import passes
from schema.tables import metadata
from tests.rooms import PACKAGES, imported, room
from tests.shape import find_circles, read_imports
from ui.links import ROOMS as ROOMS_OF_UI

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "transformers", "duckdb", "polars", "pyarrow", "numpy", "pandas", "sqlalchemy", "numba", "datasets", "streamlit")


def sources(*suffixes: str) -> Iterator[Path]:
    """Files of our packages."""
    for package in PACKAGES:
        yield from (path for path in (ROOT / package).rglob("*") if path.suffix in suffixes)


def test_the_installed_schema_is_ours() -> None:
    assert schema.__file__ == str(ROOT / "schema" / "__init__.py")


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS = re.findall(r"^\| `(\w+)` \|", ARCHITECTURE[ARCHITECTURE.index("| room |") :].partition("\n\n")[0], re.MULTILINE)
"""Of ingest/, each above those that may import it."""
READ_BY_ALL = ("ingest.request", "ingest.timing", "ingest.faults")


def ingest_room(folder: str) -> str:
    """The room that a folder of ingest lies in: the first below ingest/, or ingest itself."""
    return [*folder.split("/"), "ingest"][1]


def imports_between_rooms() -> set[tuple[str, str, str]]:
    """(room, room it imports, module) of every import in ingest/ that leaves a room."""
    found = set()
    for file in (ROOT / "ingest").rglob("*.py"):
        here = ingest_room(file.parent.relative_to(ROOT).as_posix())
        for module in imported(file):
            folder = room(module)
            if folder is not None and folder.startswith("ingest") and not module.startswith(READ_BY_ALL):
                found.add((here, ingest_room(folder), module))
    return {(here, there, module) for here, there, module in found if here != there}


def test_architecture_names_every_room_of_ingest() -> None:
    assert set(ROOMS) == {path.parent.name for path in (ROOT / "ingest").glob("*/*.py")} | {"ingest"}


def test_a_room_of_ingest_imports_only_rooms_above_it() -> None:
    between = imports_between_rooms()
    assert between
    assert {(here, there, module) for here, there, module in between if ROOMS.index(there) > ROOMS.index(here)} == set()


def test_every_folder_of_ours_is_a_package() -> None:
    """import-linter sees no others."""
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    # Streamlit runs its files, and nobody imports them
    assert {folder for folder in folders if not (folder / "__init__.py").exists()} == {ROOT / "ui" / "app_pages"}


def test_no_modules_import_each_other() -> None:
    assert find_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [{"b", "c"}]
    imports = read_imports(ROOT)
    assert "schema.open.store" in imports["schema.open.open_with_beside"]
    assert find_circles(imports) == []


def test_a_package_imports_none_above_it() -> None:
    floors = {"schema": 0, "atlas": 1, "ingest": 1, "ui": 2}
    packages = {(name.partition(".")[0], other.partition(".")[0]) for name, others in read_imports(ROOT).items() for other in others}
    assert ("ui", "atlas") in packages
    assert {(low, high) for low, high in packages if low != high and floors[high] >= floors[low]} == set()


def test_the_python_folders_are_the_four_packages_and_their_tests() -> None:
    folders = {path.parent.name for path in ROOT.glob("[!.]*/*.py")}
    assert folders == {*PACKAGES, "tests"}


def without_encoding(file: Path) -> Iterator[int]:
    """Lines that read a text as the locale has it."""
    calls = (node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "read_text" and "encoding" not in {keyword.arg for keyword in call.keywords}:
            yield call.lineno


def test_texts_are_read_as_utf_8_in_any_locale() -> None:
    found = [f"{file.relative_to(ROOT)}:{line}" for file in sources(".py") for line in without_encoding(file)]
    assert found == []


def test_no_installed_distribution_hides_our_tests() -> None:
    spec = importlib.util.find_spec("tests")
    assert spec is not None
    assert spec.origin is None, f"{spec.origin} is another distribution's package of that name"
    assert str(ROOT / "tests") in list(spec.submodule_search_locations or [])


def test_tests_are_no_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_there_is_no_secondary_index() -> None:
    create = re.compile(r"\bCREATE\s+(UNIQUE\s+)?INDEX\b", re.IGNORECASE)
    assert [str(path) for path in sources(".sql", ".py") if create.search(path.read_text(encoding="utf-8"))] == []
    assert [name for name, table in metadata(2).tables.items() if table.indexes] == []


@pytest.mark.parametrize("module", ["ingest.experiments.cli", "ingest.live.server", "atlas.cli.experiment"])
def test_what_a_command_imports_before_it_is_called_waits_for_no_torch(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'transformers', 'numba', 'polars') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_what_opens_atlas_files_waits_for_neither_sqlalchemy_nor_frames() -> None:
    code = "import sys, schema.open.store; print([m for m in ('sqlalchemy', 'duckdb_sqlalchemy', 'polars', 'pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def database_openings(source: str) -> list[int]:
    """Lines that open a DuckDB database, or use the one hidden in the module: duckdb.connect and what the module does without a connection."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.partition(".")[0] == "duckdb"
    }
    opening = {"connect", "default_connection", "sql", "query", "execute", "executemany", "from_query", "read_parquet", "read_csv", "read_json"}
    used = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in opening and isinstance(node.value, ast.Name) and node.value.id in names
    ]
    imported = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("duckdb", "_duckdb") and {a.name for a in node.names} & {*opening, "*"}
    ]
    return used + imported


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import duckdb\nduckdb.connect()", [2]),
        ("import duckdb as d\n\nd.connect('x')", [3]),
        ("from duckdb import connect", [1]),
        ("import duckdb\nduckdb.sql('SELECT 1')", [2]),
        ("import duckdb\ncon: duckdb.DuckDBPyConnection\ncon.execute('SELECT 1')", []),
    ],
)
def test_every_way_to_open_a_database_is_seen(source: str, lines: list[int]) -> None:
    assert database_openings(source) == lines


def test_only_the_stores_open_a_database() -> None:
    opening = {path.relative_to(ROOT).as_posix() for path in sources(".py") if database_openings(path.read_text(encoding="utf-8"))}
    assert opening == {"schema/open/store.py", "schema/open/lake.py"}


@pytest.mark.parametrize("statement", ["import atlas.cli", "from atlas.cli.main import cli; cli.main(['--help'], standalone_mode=False)"])
def test_the_command_line_answers_without_loading_anything_heavy(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint('LOADED', *sorted({{m.partition('.')[0] for m in sys.modules}} & set({HEAVY!r})))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1].split() == ["LOADED"]


def test_reading_an_atlas_needs_no_torch() -> None:
    code = "import atlas.api, atlas.export.formats, schema.audits, sys\nprint(*sorted({'torch', 'transformers', 'datasets', 'numba'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r'"app_pages/(\w+)\.py"', (ROOT / "ui" / "app.py").read_text(encoding="utf-8")))
    assert {*named, *ROOMS_OF_UI} == {p.stem for p in (ROOT / "ui" / "app_pages").glob("*.py")}


def test_no_page_is_called_as_what_others_import() -> None:
    """Streamlit puts the folder of what it runs before all others that Python looks in."""
    pages = {path.stem for path in (ROOT / "ui").iterdir()} - {"ui", "__init__", "__pycache__"}
    assert not pages & (set(sys.stdlib_module_names) | set(packages_distributions()))


def test_every_command_is_listed() -> None:
    """The modules of atlas/cli that have a `command`."""
    having = {
        path.stem for path in (ROOT / "atlas" / "cli").glob("*.py") if re.search(r"^(def command\(|command = )", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {f"atlas.cli.{name}" for name in having} == {module for module, _ in COMMANDS.values()}


def test_every_pass_is_called_as_its_file() -> None:
    """It is listed by its file, and stored by its name."""
    assert [each.name for each in passes().values()] == list(passes())
