"""Execution of one statement that a person typed: one SELECT, over this atlas and nothing else, bounded in rows and time.

The connection is read-only and locked down (schema/open/store.py), and the statement is judged by what it is bound to (atlas/typed/judge.py). DuckDB checks the
time only between vectors of rows, and its memory limit covers only what it counts itself: so statements from strangers run in a process that can be killed
(atlas/typed/sandbox.py).
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
"""Rows of an answer by default, and the most that may be requested."""

TIMEOUT = 60.0
LONGEST_TIMEOUT = 86_400.0
"""Seconds for a statement: by default, and at most."""

LONGEST = 1_000_000
"""Most characters of a statement."""

UNREADABLE = re.compile("[\0\ud800-\udfff]")
"""NUL, or a surrogate (half of a character), which is how Python reads a byte that is not UTF-8."""

LINE_NUMBER = re.compile(r"^LINE (\d+):", re.MULTILINE)

EXPLAIN = re.compile(r"(?>\s|--[^\n]*\n|/\*.*?\*/)*+(EXPLAIN\b\s*(?:ANALY[ZS]E\b|\(\s*(?:ANALY[ZS]E|FORMAT)\b[\w\s,]*\))?)", re.IGNORECASE | re.DOTALL)
"""Text before the statement that an EXPLAIN explains; its group, EXPLAIN with its options, cannot contain the start of a comment or a string.

Parentheses are matched only if they begin with an option, since they may hold the statement itself.
A comment is matched in only one way: otherwise the time to match a row of comments would grow faster than their number.
"""

PIVOTED = (
    "write one SELECT statement: a PIVOT that does not list its values makes a type first, which is a second statement; write PIVOT … ON column IN (value, …)"
)


@dataclass(frozen=True)
class Result:
    """Rows of a statement; `is_truncated` if there were more than the limit."""

    frame: "pl.DataFrame"
    is_truncated: bool


@dataclass(frozen=True)
class BoundedStatement:
    """A statement as it is run. `judged`: its SELECT, which is judged. `lines`: how many lines were put before the typed text, for line numbers in errors."""

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
    """Raise AtlasError for limits that are out of range; also for NaN, which is neither below nor above any number."""
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise AtlasError(f"timeout is a number of seconds above 0, at most {LONGEST_TIMEOUT:,.0f}, not {timeout}")
    if not (isinstance(max_rows, int) and 0 < max_rows <= MOST_ROWS):
        raise AtlasError(f"max_rows is a whole number from 1 to {MOST_ROWS:,}, not {max_rows}")


def select_table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters, max_rows: int) -> "pa.Table":
    """Judge a statement and run it; return at most `max_rows` + 1 rows. Raises what `run_select` raises, except QueryTimeout."""
    from atlas.cursors import read_arrow, translate_duckdb_errors

    with translate_duckdb_errors():
        statement = bound_statement(cursor, sql, max_rows)
        try:
            judge(cursor, statement.judged, parameters)
            return read_arrow(cursor, statement.sql, parameters)
        except duckdb.Error as error:
            raise type(error)(LINE_NUMBER.sub(lambda line: f"LINE {int(line[1]) - statement.lines}:", str(error))) from error


def bound_statement(cursor: duckdb.DuckDBPyConnection, sql: str, max_rows: int) -> BoundedStatement:
    """Build the statement to run: the one SELECT in `sql` with its rows limited, or an EXPLAIN. Raises QueryRefused unless `sql` is one of these."""
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
    """Split an EXPLAIN, with or without ANALYZE, from its one SELECT. That SELECT is judged, and it is the one that the EXPLAIN runs or explains."""
    head = EXPLAIN.match(body)
    select = body[head.end() :] if head else ""
    if head is None or only_statement(cursor, select).type != duckdb.StatementType.SELECT:
        raise QueryRefused("refused: EXPLAIN may only explain one SELECT statement here")
    lines = "\n" * body[: head.start(1)].count("\n")
    return BoundedStatement(f"{lines}{head[1]} {select.lstrip()}", "\n" * body[: head.end()].count("\n") + select, 0)


def before_semicolon(statement: str) -> str:
    """Cut a statement off at the semicolon that ends it."""
    text = statement.encode()
    end = next((at for at, _ in duckdb.tokenize(statement) if text[at : at + 1] == b";"), len(text))
    return text[:end].decode()


def run_with_timeout(cursor: duckdb.DuckDBPyConnection, timeout: float, run: Callable[[], T]) -> T:
    """Call `run`, and stop it after `timeout` seconds. Raises QueryTimeout if it was stopped."""
    try:
        return interruptible(cursor, run, timeout)
    except TimeoutError as error:
        raise QueryTimeout(timeout_message(timeout)) from error


def timeout_message(timeout: float) -> str:
    """Write the error message for a statement that took too long."""
    return f"stopped after {timeout:g} s; filter by the leading columns (corpus_id, layer, neuron), or allow more time"


__all__ = ["AtlasError", "Result", "run_select"]
