"""Cursors, one for each statement; DuckDB's errors as AtlasError; and the columns of an answer that are read as text.

The process that runs typed SQL imports this module. It has too little memory for polars, which is therefore not imported here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

from atlas.forked import refuse_forked
from schema.damage import BROKEN, describe_damage
from schema.errors import AtlasError, QueryRefused, Unreachable, first_line

if TYPE_CHECKING:
    import pyarrow as pa


TEXT_TYPES = {"bit", "bignum", "geometry", "time with time zone", "uhugeint"}
"""DuckDB types whose values Arrow would truncate or hand over in DuckDB's internal form: their columns are read as text that DuckDB writes."""

NESTED = ("list", "array", "struct", "map", "union")


def text_columns(description: Sequence[tuple]) -> list[str]:
    """List the columns of a result that must be read as text, by its cursor's description."""
    return [name for name, kind, *_ in description if holds_text_type(kind)]


def holds_text_type(kind: object) -> bool:
    """Tell whether a DuckDB type is one of TEXT_TYPES, cannot be represented by a Python dictionary, or contains such a type."""
    name = getattr(kind, "id", None)
    within = kind.children if name in NESTED else ()  # type: ignore[attr-defined]
    return name in TEXT_TYPES or is_no_dictionary(name, within) or any(holds_text_type(part) for _, part in within)


def is_no_dictionary(name: str | None, within: Sequence[tuple]) -> bool:
    """Tell whether a structure has two fields of one name (those of `row(1, 2)` are unnamed), or a map has keys that are lists or structures."""
    if name == "map":
        return any(part == "key" and key.id in NESTED for part, key in within)
    return name == "struct" and len({part for part, _ in within}) < len(within)


def cast_to_text(sql: str, columns: Sequence[str]) -> str:
    """Rewrite a SELECT so that it returns these columns as text."""
    names = ['"' + name.replace('"', '""') + '"' for name in columns]
    # the line break ends a trailing comment
    return f"SELECT * REPLACE ({', '.join(f'{name}::VARCHAR AS {name}' for name in names)}) FROM (\n{sql}\n)"


IS_DUCKDB_1 = duckdb.__version__.startswith("1.")

NO_TEXT = ("Unable to cast Python instance of type <class 'str'>", "cannot encode str as UTF-8")
"""Messages of the Python bindings of DuckDB 1 and of DuckDB 2 for a text that UTF-8 cannot encode."""

BATCH = 1 << 14
"""Rows that DuckDB returns in one batch. It allocates a full batch of each column first, and its default, a million rows, takes too much for wide answers."""

Parameters = Mapping[str, object] | Sequence[object] | None


RAISED, OURS = "Invalid Input Error: ", "this is a question of one text"
"""Prefix of DuckDB for an error that a question raises by error(), and the beginning of the error of one_corpus.sql, which is shown without that prefix."""


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
        raise AtlasError(f"the answer's lists or structures are nested too deeply for Arrow; unnest them in the query ({error})") from error


@contextmanager
def translate_duckdb_errors() -> Iterator[None]:
    """Translate DuckDB's errors within the block into AtlasError or one of its subclasses, with messages of our own."""
    try:
        yield
    except duckdb.ConnectionException as error:
        raise AtlasError(f"this atlas is closed; open it again ({first_line(error)})") from error
    except duckdb.PermissionException as error:
        raise QueryRefused(f"refused: a question reads this atlas and nothing else ({first_line(error)})") from error
    except duckdb.OutOfMemoryException as error:
        raise AtlasError(f"the statement needs more memory than its limit: ask for fewer rows or columns ({first_line(error)})") from error
    except BROKEN as error:
        said = describe_damage(error)
        raise AtlasError(f"DuckDB failed, perhaps because a file is damaged: {said}. `atlas verify` tells whether any file is damaged") from error
    except duckdb.IOException as error:
        said = " ".join(str(error).split())
        if "HTTP" in said:
            raise Unreachable(f"the storage of this lake does not answer: {said}") from error
        raise AtlasError(f"DuckDB: {said}" + ("; `atlas verify` checks the whole atlas" if describe_damage(error) else "")) from error
    except (duckdb.Error, RuntimeError) as error:
        if any(said in str(error) for said in NO_TEXT):
            raise AtlasError("a text among the parameters cannot be encoded in UTF-8: it has half a surrogate pair") from error
        if isinstance(error, duckdb.Error):
            said = str(error).strip()
            raise AtlasError(said.removeprefix(RAISED) if said.startswith(RAISED + OURS) else f"DuckDB: {said}") from error
        raise
