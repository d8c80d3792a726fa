"""Run one statement that a person typed: one SELECT, over this atlas and nothing else, bounded in rows and time.

The connection is read-only and locked down (schema/open/store.py), the statement is judged by what it is bound to (atlas/typed/judge.py). Time is looked at
between DuckDB's vectors only, and memory is DuckDB's own count: for what strangers type there is a process that can be killed (atlas/typed/sandbox.py).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import duckdb

from atlas.typed.judge import Parameters, judge
from schema.errors import AtlasError, QueryRefused, QueryTimeout
from schema.interruptible import interruptible

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")

MAX_ROWS = 100_000
MOST_ROWS = 2_147_483_647
"""Rows of an answer where nobody says how many, and the most that may be asked for."""

TIMEOUT = 60.0
LONGEST_TIMEOUT = 86_400.0
"""Seconds."""

LONGEST = 1_000_000
"""Characters of a statement."""

UNREADABLE = re.compile("[\0\ud800-\udfff]")
"""NUL, and half of a character, which a byte that is no UTF-8 becomes."""

LINE_NUMBER = re.compile(r"^LINE (\d+):", re.MULTILINE)

EXPLAIN = re.compile(r"(?>\s|--[^\n]*\n|/\*.*?\*/)*+(EXPLAIN\b\s*(?:ANALY[ZS]E\b|\(\s*(?:ANALY[ZS]E|FORMAT)\b[\w\s,]*\))?)", re.IGNORECASE | re.DOTALL)
"""What stands before the statement that is explained; nothing in its group can open a comment or a string. Parentheses are taken
where options begin them, as they may hold the statement itself. A comment is taken once, or as many ways to read a row of them would be tried as there are."""

PIVOTED = "write one SELECT statement: for a PIVOT whose values DuckDB must look up it makes a type first; name them, PIVOT … ON column IN (value, …)"


@dataclass(frozen=True)
class Result:
    """Rows of a statement; `is_truncated` if there were more than the bound let through."""

    frame: "pl.DataFrame"
    is_truncated: bool


@dataclass(frozen=True)
class BoundedStatement:
    """A statement as it is run: `judged` is its SELECT, `lines` by how many its lines were moved down."""

    sql: str
    judged: str
    lines: int


def run_select(con: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None, *, max_rows: int = MAX_ROWS, timeout: float = TIMEOUT) -> Result:
    """Run `sql` and return at most `max_rows` rows within `timeout` seconds.

    Raises QueryRefused for anything but one SELECT (or EXPLAIN of one) over the atlas, QueryTimeout past the limit, AtlasError for wrong SQL.
    """
    from atlas.cursors import own_cursor
    from atlas.typed.values import frame_of

    require_limits(max_rows, timeout)
    with own_cursor(con) as cursor:
        table = run_with_timeout(cursor, timeout, lambda: select_table(cursor, sql, parameters, max_rows))
    frame = frame_of(table)
    return Result(frame.head(max_rows), frame.height > max_rows)


def require_limits(max_rows: int, timeout: float) -> None:
    """Raise AtlasError for limits that are none: 'nan' is below nothing and above nothing."""
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise AtlasError(f"timeout is a number of seconds above 0, at most {LONGEST_TIMEOUT:,.0f}, not {timeout}")
    if not (isinstance(max_rows, int) and 0 < max_rows <= MOST_ROWS):
        raise AtlasError(f"max_rows is a whole number from 1 to {MOST_ROWS:,}, not {max_rows}")


def select_table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters, max_rows: int) -> "pa.Table":
    """Judge a statement and run it: at most `max_rows` rows and one more. Raises as `run_select` does, but for the time."""
    from atlas.cursors import read_arrow, translate_duckdb_errors

    with translate_duckdb_errors():
        statement = bound_statement(cursor, sql, max_rows)
        try:
            judge(cursor, statement.judged, parameters)
            return read_arrow(cursor, statement.sql, parameters)
        except duckdb.Error as error:
            raise type(error)(LINE_NUMBER.sub(lambda line: f"LINE {int(line[1]) - statement.lines}:", str(error))) from error


def bound_statement(cursor: duckdb.DuckDBPyConnection, sql: str, max_rows: int) -> BoundedStatement:
    """Limit the rows of the one reading statement in `sql`. Raises QueryRefused for none, several, or one that does anything else."""
    if len(sql) > LONGEST or UNREADABLE.search(sql):
        raise QueryRefused(f"write one SELECT statement of at most {LONGEST:,} characters, in UTF-8 and without NUL")
    statement = only_statement(cursor, sql)
    body = before_semicolon(statement.query)
    if statement.type == duckdb.StatementType.EXPLAIN:
        return parse_explain(cursor, body)
    # the line break ends a trailing comment
    select = f"SELECT * FROM (\n{body}\n) LIMIT {max_rows + 1}"
    return BoundedStatement(select, select, 1)


def only_statement(cursor: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    try:
        statements = cursor.extract_statements(sql)
        kinds = [str(s.type).rpartition(".")[2] for s in statements]
    except ValueError as error:
        # a kind that Python's DuckDB has no name for
        raise QueryRefused("write one SELECT statement: an atlas is read-only, and this is something else") from error
    if kinds[-1:] == ["SELECT"] and set(kinds[:-1]) == {"CREATE"} and sql.lstrip("( \n\t")[:5].upper() in ("PIVOT", "WITH ", "FROM "):
        raise QueryRefused(PIVOTED)
    if len(statements) != 1:
        raise QueryRefused(f"write one SELECT statement; this has {len(statements)}" + (f" ({', '.join(kinds)})" if kinds else ""))
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise QueryRefused(f"write one SELECT statement: an atlas is read-only, and this is {kinds[0]}")
    return statements[0]


def parse_explain(cursor: duckdb.DuckDBPyConnection, body: str) -> BoundedStatement:
    """Split an EXPLAIN, with or without ANALYZE, from its one SELECT: what it explains is judged, and run as it was judged."""
    head = EXPLAIN.match(body)
    select = body[head.end() :] if head else ""
    if head is None or only_statement(cursor, select).type != duckdb.StatementType.SELECT:
        raise QueryRefused("refused: EXPLAIN explains one SELECT statement here")
    lines = "\n" * body[: head.start(1)].count("\n")
    return BoundedStatement(f"{lines}{head[1]} {select.lstrip()}", "\n" * body[: head.end()].count("\n") + select, 0)


def before_semicolon(statement: str) -> str:
    """Cut off the semicolon that ends a statement, and what follows it."""
    text = statement.encode()
    end = next((at for at, _ in duckdb.tokenize(statement) if text[at : at + 1] == b";"), len(text))
    return text[:end].decode()


def run_with_timeout(cursor: duckdb.DuckDBPyConnection, timeout: float, run: Callable[[], T]) -> T:
    """Run, and stop after `timeout` seconds."""
    try:
        return interruptible(cursor, run, timeout)
    except TimeoutError as error:
        raise QueryTimeout(timeout_message(timeout)) from error


def timeout_message(timeout: float) -> str:
    """Word the error of a statement that took too long."""
    return f"stopped after {timeout:g} s; filter by the leading columns (corpus_id, layer, neuron), or allow more time"


__all__ = ["AtlasError", "Result", "run_select"]
