"""Run one statement that a person typed: one SELECT, read-only, no other files, bounded in rows and time.

The connection itself is read-only and locked down (schema/store.py); this adds the bounds and the clear refusals.
"""

import re
from dataclasses import dataclass

import duckdb
import polars as pl

from atlas.frames import Parameters, own_cursor, read, translated
from schema.errors import AtlasError, QueryRefused, QueryTimeout
from schema.interruptible import interruptible

MAX_ROWS = 100_000
TIMEOUT = 60.0
"""Seconds."""

LINE_NUMBER = re.compile(r"^LINE (\d+):", re.MULTILINE)

READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


@dataclass(frozen=True)
class Result:
    """Rows of a statement; `is_truncated` if there were more than the bound let through."""

    frame: pl.DataFrame
    is_truncated: bool


def select_statement(con: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """The one reading statement in `sql`. Raises QueryRefused for none, several, or one that does anything else."""
    with translated():
        statements = con.extract_statements(sql)
    kinds = [str(s.type).rpartition(".")[2] for s in statements]
    if len(statements) != 1:
        raise QueryRefused(f"write one SELECT statement; this has {len(statements)}" + (f" ({', '.join(kinds)})" if kinds else ""))
    if statements[0].type not in READS:
        raise QueryRefused(f"write one SELECT statement: an atlas is read-only, and this is {kinds[0]}")
    return statements[0]


def run_select(con: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None, *, max_rows: int = MAX_ROWS, timeout: float = TIMEOUT) -> Result:
    """Run `sql` and return at most `max_rows` rows within `timeout` seconds.

    Raises QueryRefused for anything but one SELECT (or EXPLAIN) over the atlas, QueryTimeout past the limit, AtlasError for wrong SQL.
    """
    with own_cursor(con) as cursor:
        statement = select_statement(cursor, sql)
        is_select = statement.type == duckdb.StatementType.SELECT
        body = before_semicolon(statement.query)
        # the line break ends a trailing comment
        bounded = f"SELECT * FROM (\n{body}\n) LIMIT {max_rows + 1}" if is_select else body
        try:
            frame = read_within(cursor, bounded, parameters, timeout)
        except AtlasError as error:
            raise type(error)(LINE_NUMBER.sub(lambda line: f"LINE {int(line[1]) - is_select}:", str(error))) from error
    return Result(frame.head(max_rows), frame.height > max_rows)


def before_semicolon(statement: str) -> str:
    """A statement without the semicolon that ends it, and what follows that."""
    text = statement.encode()
    end = next((at for at, _ in duckdb.tokenize(statement) if text[at : at + 1] == b";"), len(text))
    return text[:end].decode()


def read_within(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters, timeout: float) -> pl.DataFrame:
    """Read, and stop after `timeout` seconds."""
    try:
        with translated():
            return interruptible(cursor, lambda: read(cursor, sql, parameters), timeout)
    except TimeoutError as error:
        raise QueryTimeout(f"stopped after {timeout:g} s; filter by the leading columns (corpus_id, layer, neuron), or allow more time") from error
