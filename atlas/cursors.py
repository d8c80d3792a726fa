"""Cursors, one for each statement; DuckDB's errors as AtlasError; and the columns of an answer that are read as text.

The process that runs typed SQL imports this module, and has no room for polars.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

from atlas.forked import refuse_forked
from schema.damage import BROKEN, describe_damage
from schema.errors import AtlasError, QueryRefused, Unreachable

if TYPE_CHECKING:
    import pyarrow as pa


TEXT_TYPES = {"bit", "bignum", "geometry", "time with time zone", "uhugeint"}
"""Types whose values Arrow would carry as internals or truncate: their columns are read as text that DuckDB writes."""

NESTED = ("list", "array", "struct", "map", "union")


def text_columns(description: Sequence[tuple]) -> list[str]:
    """List the columns of a result that must be read as text, by its cursor's description."""
    return [name for name, kind, *_ in description if holds_text_type(kind)]


def holds_text_type(kind: object) -> bool:
    """Tell whether a DuckDB type is one of TEXT_TYPES, or one that no Python dictionary can represent, or has such a type within."""
    name = getattr(kind, "id", None)
    within = kind.children if name in NESTED else ()  # type: ignore[attr-defined]
    return name in TEXT_TYPES or is_no_dictionary(name, within) or any(holds_text_type(part) for _, part in within)


def is_no_dictionary(name: str | None, within: Sequence[tuple]) -> bool:
    """Tell whether a structure has two fields of one name (those of `row(1, 2)` have none), or a map has keys that are lists or structures."""
    if name == "map":
        return any(part == "key" and key.id in NESTED for part, key in within)
    return name == "struct" and len({part for part, _ in within}) < len(within)


def cast_to_text(sql: str, columns: Sequence[str]) -> str:
    """Rewrite a SELECT so that these columns come as text."""
    names = ['"' + name.replace('"', '""') + '"' for name in columns]
    # the line break ends a trailing comment
    return f"SELECT * REPLACE ({', '.join(f'{name}::VARCHAR AS {name}' for name in names)}) FROM (\n{sql}\n)"


IS_DUCKDB_1 = duckdb.__version__.startswith("1.")

NO_TEXT = ("Unable to cast Python instance of type <class 'str'>", "cannot encode str as UTF-8")
"""Messages of the Python bindings of DuckDB 1 and of DuckDB 2 for a text that UTF-8 cannot encode."""

BATCH = 1 << 14
"""Rows that DuckDB hands over at once. It first takes memory for this many rows of each column: with its default, a million, too much for wide answers."""

Parameters = Mapping[str, object] | Sequence[object] | None


RAISED, OURS = "Invalid Input Error: ", "this is a question of one text"
"""Prefix of an error that a question raises by error(), and the beginning of that of one_corpus.sql, which is passed on without the prefix."""


@contextmanager
def own_cursor(con: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a cursor for one statement: a connection shared between threads mixes up their results."""
    refuse_forked()
    with translate_duckdb_errors():
        cursor = con.cursor()
    try:
        yield cursor
    finally:
        cursor.close()


def fetch_rows(con: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> list[tuple]:
    """Fetch all rows of one statement. Raises AtlasError with DuckDB's message if it fails."""
    with own_cursor(con) as cursor, translate_duckdb_errors():
        return cursor.execute(sql, parameters or None).fetchall()


def read_arrow(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> "pa.Table":
    """Read the rows of a statement; columns of types that Arrow would garble come as DuckDB's own text."""
    table, description = arrow_table(cursor, sql, parameters)
    as_text = text_columns(description)
    return arrow_table(cursor, cast_to_text(sql, as_text), parameters)[0] if as_text else table


def arrow_table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters) -> tuple["pa.Table", Sequence[tuple]]:
    """Read an answer as Arrow, in the fast way of each version: DuckDB 1 is slow for relations with parameters, DuckDB 2 copies twice after execute()."""
    found = cursor.execute(sql, parameters or None) if IS_DUCKDB_1 else cursor.sql(sql, params=parameters or None)
    try:
        return found.to_arrow_table(BATCH), found.description
    except ValueError as error:
        raise AtlasError(f"the answer's lists or structures are too many within each other for Arrow; take them apart in the query ({error})") from error


@contextmanager
def translate_duckdb_errors() -> Iterator[None]:
    """Translate DuckDB's errors within the block into AtlasError and its kinds, with messages of our own."""
    try:
        yield
    except duckdb.ConnectionException as error:
        raise AtlasError(f"this atlas is closed; open it again ({first_line(error)})") from error
    except duckdb.PermissionException as error:
        raise QueryRefused(f"refused: a question reads this atlas and nothing else ({first_line(error)})") from error
    except duckdb.OutOfMemoryException as error:
        raise AtlasError(f"this needs more memory than it may take: ask for fewer rows or columns ({first_line(error)})") from error
    except BROKEN as error:
        raise AtlasError(f"DuckDB cannot go on, as where a file is damaged: {describe_damage(error)}. `atlas verify` says whether one is") from error
    except duckdb.IOException as error:
        said = " ".join(str(error).split())
        if "HTTP" in said:
            raise Unreachable(f"the storage of this lake does not answer: {said}") from error
        raise AtlasError(f"DuckDB: {said}" + ("; `atlas verify` reads all of it" if describe_damage(error) else "")) from error
    except (duckdb.Error, RuntimeError) as error:
        if any(said in str(error) for said in NO_TEXT):
            raise AtlasError("a text among the parameters is no UTF-8: it has half a surrogate pair") from error
        if isinstance(error, duckdb.Error):
            said = str(error).strip()
            raise AtlasError(said.removeprefix(RAISED) if said.startswith(RAISED + OURS) else f"DuckDB: {said}") from error
        raise


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
