"""`atlas questions`: the list, or one with its SQL."""

from typing import Any

import click

from atlas.cli.options import emit, output_options
from atlas.questions import question, questions


@click.command()
@click.argument("name", required=False)
@output_options()
def command(name: str | None, **out: Any) -> None:
    """List the questions, or print the file of one: header and SQL. No atlas is needed."""
    if name is not None:
        click.echo(question(name).sql, nl=False)
        return
    import polars as pl

    rows = [{"question": q.signature, "title": q.title, "source": q.source} for q in questions().values()]
    emit(pl.DataFrame(rows), provenance={}, **out)
