"""Release of the views, questions and tables of an atlas: a digest of their sources that is stored in the atlas, and compared when the atlas is opened.

The digest is stored as the label of an ENUM type, which can be read without running anything: no definition of an atlas may run before it is locked down.
"""

import re
from functools import cache
from hashlib import sha256
from importlib.metadata import EntryPoint
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import duckdb

from schema.errors import AtlasError
from schema.registry import blame_distribution, find_parts

QUESTION_GROUP = "activation_atlas.questions"
"""Group of entry points that return SQL files of table macros. Ours are among them, since they lie in `atlas`, which this package does not import."""

TABLE_GROUP = "activation_atlas.tables"
"""Group of entry points by which other distributions name their table modules, which have the same form as those in schema/tables."""

TITLE = re.compile(r"^-- title:\s+(.+)$", re.MULTILINE)

STORED = """
SELECT t.labels
FROM system.main.duckdb_types() AS t
WHERE t.type_name = 'release_digest' AND t.schema_name = 'main' AND t.database_name = system.main.current_database()
"""
"""Query of the stored digest. Its names are fully qualified, because a macro of the file may have the name of a DuckDB function."""


@cache
def question_sources() -> dict[str, str]:
    """Map the name of every installed question to its file: a header, and the SQL of its table macro.

    Raises AtlasError for an entry point that is broken, and for two questions of one name.
    """
    return find_parts(QUESTION_GROUP, dict[str, str](), lambda point: point.load()())


def question_files() -> dict[str, str]:
    """Map the name of every installed question to the SQL that installs it in an atlas."""
    return {name: add_title_comment(name, sql) for name, sql in question_sources().items()}


def add_title_comment(name: str, sql: str, database: str = "") -> str:
    """Add a question's title to its SQL, as a comment on its macro. database: the database of the macro; '' for the current one."""
    title = TITLE.search(sql)
    said = title[1].strip().replace("'", "''") if title else ""
    return f"{sql}\nCOMMENT ON MACRO TABLE {database and f'{database}.'}{name} IS '{said}';\n"


@cache
def view_files() -> dict[str, str]:
    folder = files("schema") / "views"
    return {f.name.removesuffix(".sql"): f.read_text(encoding="utf-8") for f in folder.iterdir() if f.name.endswith(".sql")}


def table_modules() -> list[str]:
    """List the names of our modules in schema/tables, sorted."""
    names = sorted(f.name.removesuffix(".py") for f in (files("schema") / "tables").iterdir() if f.name.endswith(".py"))
    return [name for name in names if name != "__init__"]


def added_modules() -> list[str]:
    """List the names of the table modules of other distributions, sorted."""
    return sorted(find_table_points())


def find_table_points() -> dict[str, EntryPoint]:
    """Map the names of the table modules of other distributions to their entry points. Raises AtlasError for a module that two of them name."""
    return find_parts(TABLE_GROUP, dict[str, EntryPoint](), lambda point: {point.module: point})


def added_source(point: EntryPoint) -> str:
    """Read the source of a table module of another distribution, without an import: SQLAlchemy takes longer to load than a file to open.

    Raises AtlasError, naming the distribution, if there is no such module.
    """
    with blame_distribution(point):
        spec = find_spec(point.module)
        if spec is None or spec.origin is None:
            raise AtlasError(f"there is no module {point.module}")
        return Path(spec.origin).read_text(encoding="utf-8")


@cache
def release_digest() -> str:
    """Compute the SHA-256 of the sources of all tables, views and questions."""
    declared = ["columns.py", "terms.py", *(f"tables/{name}.py" for name in table_modules())]
    ours = {name: (files("schema") / name).read_text(encoding="utf-8") for name in declared}
    added = {name: added_source(point) for name, point in find_table_points().items()}
    sources = ours | added | view_files() | question_files()
    return sha256("\0".join(f"{name}\0{text}" for name, text in sorted(sources.items())).encode()).hexdigest()


def store_digest(con: duckdb.DuckDBPyConnection) -> None:
    """Record in the current database that its tables, views and questions are of this release."""
    con.execute(
        f"DROP TYPE IF EXISTS release_digest; CREATE TYPE release_digest AS ENUM ('{release_digest()}'); "
        "COMMENT ON TYPE release_digest IS 'Its label is a digest of the views and questions: their release.'"
    )


def is_of_this_release(con: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether the digest stored in the open file is that of this release's tables, views and questions."""
    return con.execute(STORED).fetchall() == [([release_digest()],)]


def stored_tables(con: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
    """List (database, table) for every table that stores all of its rows itself.

    A view in the place of a table, or a computed column, would run its definition when it is read.
    """
    found = con.execute("SELECT t.database_name, t.table_name, t.sql FROM system.main.duckdb_tables() AS t WHERE t.schema_name = 'main'").fetchall()
    return {(database, table) for database, table, sql in found if "GENERATED ALWAYS" not in (sql or "")}
