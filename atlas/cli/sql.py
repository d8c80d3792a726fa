"""`atlas sql`: free SQL, bounded."""

import sys
from pathlib import Path
from typing import Any

import click

from atlas.cli.options import db_option, emit, open_atlas, output_options

MAX_ROWS = 1000
TIMEOUT = 60.0


def answer_sql(query: str, max_rows: int, timeout: float, db: Path | None, **out: Any) -> None:
    """Run the SELECT, print or write its rows, and say on stderr if there were more."""
    with open_atlas(db) as a:
        from atlas.export.provenance import provenance
        from atlas.guard import run_select

        result = run_select(a.con, query, max_rows=max_rows, timeout=timeout)
        source = provenance(a.con, a.path, sql=query, n_rows=result.frame.height) | {"is_truncated": result.is_truncated}
    emit(result.frame, provenance=source, **out)
    if result.is_truncated:
        click.echo(f"only the first {max_rows} rows: --max-rows gives more", err=True)


def sql_command(*, to_file: bool, max_rows: int) -> click.Command:
    """`atlas sql`, or `atlas export sql`, which must have a file and bounds its rows less."""

    @click.command(name="sql")
    @click.argument("query")
    @click.option("--max-rows", type=click.IntRange(min=1), default=max_rows, show_default=True, help="Stop after so many rows.")
    @click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=TIMEOUT, show_default=True, metavar="SECONDS", help="Stop after.")
    @db_option
    @output_options(to_file=to_file)
    def command(query: str, max_rows: int, timeout: float, db: Path | None, **out: Any) -> None:
        """Run one SELECT; QUERY is the SQL, or - to read it from standard input.

        Questions are table functions: atlas sql "FROM top_triggers(3, 17)". Nothing can be written, and no other file can be read.
        """
        query = sys.stdin.read() if query == "-" else query
        answer_sql(query, max_rows, timeout, db, **out)

    return command


command = sql_command(to_file=False, max_rows=MAX_ROWS)
