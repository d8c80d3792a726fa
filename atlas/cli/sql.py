"""`atlas sql`: any SELECT, within limits of rows, time and memory."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from atlas.cli.options import db_option, emit, open_atlas, output_options, require_path
from schema.errors import AtlasError

MAX_ROWS = 1_000
"""Default limit of rows that are printed."""

MAX_FILE_ROWS = 10_000_000
"""Default limit of rows that are written to a file: more than a screen holds, less than memory does."""

TIMEOUT = 60.0
"""Default limit of time, in seconds."""


def answer_sql(query: str, max_rows: int, timeout: float, db: Path | None, **out: Any) -> None:
    """Run the SELECT and print its rows, with a note on stderr if there are more, or write them to a file.

    Raises AtlasError if the file would not have all rows.
    """
    from atlas.typed import sandbox
    from atlas.typed.hints import add_hints

    # the process opens the atlas while this one does
    with sandbox.begin_query(require_path(db), query, max_rows=max_rows, timeout=timeout) as answer, open_atlas(db) as a:
        from atlas.answers import explain_empty_statement
        from atlas.export.provenance import provenance

        with add_hints(query):
            result = answer()
        if out["output"] is not None and result.is_truncated:
            raise AtlasError(f"more than {max_rows:,} rows: nothing is written to {out['output']}; raise --max-rows for more")
        if result.frame.is_empty() and (why := explain_empty_statement(a.con, a.path, query)):
            click.echo(f"note: no rows: {why}", err=True)
        emit(result.frame, provenance=partial(provenance, a.con, a.path, sql=query, n_rows=result.frame.height), **out)
    if result.is_truncated:
        click.echo(f"only the first {max_rows} rows: raise --max-rows for more", err=True)


def check_seconds(_: click.Context, __: click.Parameter, seconds: float) -> float:
    """Check that a time limit is above 0 and at most LONGEST_TIMEOUT seconds; 'nan' is refused."""
    from atlas.typed.execution import LONGEST_TIMEOUT

    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise click.BadParameter(f"{seconds:g} is not between 0 and {LONGEST_TIMEOUT:,.0f} seconds")
    return seconds


def read_stdin_query() -> str:
    """Read the query from standard input. Raises AtlasError if it cannot be read, or is not UTF-8."""
    if sys.stdin is None:
        raise AtlasError("standard input is closed, but - reads the query from it")
    try:
        return sys.stdin.buffer.read().decode()
    except OSError as error:
        raise AtlasError(f"cannot read the query from standard input: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AtlasError(f"standard input is not UTF-8 (byte {error.start}): save the query as UTF-8") from error


def sql_command(*, to_file: bool) -> click.Command:
    """Build the command `atlas sql`, or with `to_file` `atlas export sql`, which requires -o."""

    @click.command(name="sql")
    @click.argument("query")
    @click.option(
        "--max-rows", type=click.IntRange(min=1), metavar="N", help=f"Stop after N rows.  [default: {MAX_ROWS:,} if printed, {MAX_FILE_ROWS:,} in a file]"
    )
    @click.option("--timeout", type=float, callback=check_seconds, default=TIMEOUT, show_default=True, metavar="SECONDS", help="Stop after this time.")
    @db_option
    @output_options(to_file=to_file)
    def command(query: str, max_rows: int | None, timeout: float, db: Path | None, **out: Any) -> None:
        """Run one SELECT; QUERY is the SQL, or - to read it from standard input.

        Questions are table functions: atlas sql "FROM top_triggers(3, 17)". Nothing can be written, and no other file can be read.
        The query runs in a separate process, which ends at its limits of time and memory.
        """
        query = read_stdin_query() if query == "-" else query
        answer_sql(query, max_rows or (MAX_FILE_ROWS if out["output"] else MAX_ROWS), timeout, db, **out)

    return command


command = sql_command(to_file=False)
