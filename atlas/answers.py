"""Answers to questions as frames, and explanations of empty answers: the atlas lacks what an argument names, or the run that fills a table."""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import duckdb
import polars as pl

from atlas.arguments import bind
from atlas.commands import ingest_command
from atlas.cursors import fetch_rows
from atlas.frames import fetch
from atlas.questions import Question, question, questions
from atlas.ranges import check_arguments, missing_run, unknown_tables
from atlas.reads import nodes_of, relations_of_statement
from atlas.statement import statement
from schema.errors import AtlasError
from schema.open.kinds import Companion, kinds

MOST_CALLS = 20
"""Maximum number of questions in a typed statement whose arguments are checked."""


def read_answer(con: duckdb.DuckDBPyConnection, name: str, *args: object, **kwargs: object) -> pl.DataFrame:
    """Ask a question by name. Raises AtlasError for an unknown question, for wrong arguments, or for arguments that name something this atlas does not have."""
    q = question(name)
    arguments = bind(q, args, kwargs)
    check_arguments(con, arguments, q.sql)
    return fetch(con, statement(q, arguments))


def explain_no_rows(con: duckdb.DuckDBPyConnection, path: Path, q: Question) -> str:
    """Explain why a question has no rows if the reason is a missing run, or missing data beside the atlas at `path`; return '' for any other reason."""
    if run := missing_run(con, q.sql):
        return f"because this atlas has no {run} run: `{ingest_command(con, path, run)}`"
    if later := unknown_tables(con, q.sql):
        table, run = next(iter(later.items()))
        how = ingest_command(con, path, run)
        return f"because the {run} run of this atlas did not fill table {table}, which may be newer than the run: `{how}`"
    return next((f"because this atlas has no {kind.name} that the question reads ({other_command(kind, q)})" for kind in kinds() if kind.name == q.catalog), "")


def other_command(kind: Companion, q: Question) -> str:
    """Name the command that reports the contents of `kind`, or the command that adds to them if `q` is itself that report."""
    return kind.changed_by if kind.told_by == f"atlas ask {q.name}" else kind.told_by


def explain_empty_statement(con: duckdb.DuckDBPyConnection, path: Path, sql: str) -> str:
    """Explain why a typed statement has no rows if the reason is an argument of its questions or a missing run; return '' for any other reason.

    A statement calls questions as table functions, which return no rows for an unknown argument instead of raising an error.
    """
    for name, args, kwargs in islice(calls(con, sql), MOST_CALLS):
        q = question(name)
        try:
            check_arguments(con, bind(q, args, kwargs), q.sql)
        except AtlasError as error:
            return f"{name}: {error}"
    read = relations_of_statement(con, sql) or set()
    # as a question's own SQL names them
    if run := missing_run(con, " ".join(f"FROM {name}" for name in sorted(read))):
        return f"it reads a table that the pass {run} fills, and this atlas has no {run} run: `{ingest_command(con, path, run)}`"
    return ""


Call = tuple[str, tuple[object, ...], dict[str, object]]
"""A question's name, its positional arguments and its named arguments."""


def calls(con: duckdb.DuckDBPyConnection, sql: str) -> Iterator[Call]:
    """Yield those calls of questions in a typed statement that have only constant arguments; other arguments depend on the statement's rows."""
    try:
        parsed = json.loads(fetch_rows(con, "SELECT json_serialize_sql(?, skip_default := true)", [sql])[0][0])
    except RecursionError:
        return
    for node in nodes_of(parsed):
        called = node.get("function") if node.get("type") == "TABLE_FUNCTION" else None
        if called and called["function_name"].lower() in questions() and (given := constants(called)) is not None:
            named = {name: value for name, value in given if name}
            yield called["function_name"].lower(), tuple(value for name, value in given if not name), named


READ: dict[str, Callable[[str], object]] = {"INTEGER": int, "NUMERIC": float, "STRING": str, "BOOLEAN": "true".__eq__, "NULL_LITERAL": lambda _: None}
"""Kind of a literal in DuckDB 2 → the function that converts its text to a value."""


def constants(called: dict) -> list[tuple[str | None, object]] | None:
    """Return the name and value of each argument of a call, as DuckDB 1 or 2 serialises it; None if an argument is not a constant.

    A positional argument has no name.
    """
    children = [(child.get("alias"), child) for child in called.get("children", [])]
    found: list[tuple[str | None, object]] = []
    for name, node in [*children, *((argument.get("name"), argument["expression"]) for argument in called.get("arguments", []))]:
        literal, value = node.get("literal"), node.get("value", {}).get("value")
        if node.get("class") != "CONSTANT" or isinstance(value, dict | list) or (literal and literal["kind"] not in READ):
            return None
        found.append((name, READ[literal["kind"]](literal.get("text", "")) if literal else value))
    return found
