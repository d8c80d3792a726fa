"""`atlas schema`: the data dictionary."""

from pathlib import Path
from typing import Any

import click

from atlas.cli.options import db_option, emit, open_atlas, output_options


@click.command()
@click.argument("relation", required=False)
@db_option
@output_options()
def command(relation: str | None, db: Path | None, **out: Any) -> None:
    """Print every column of every table and view with its type and meaning, or only the columns of RELATION.

    Without an atlas, print the dictionary of a new atlas. `--format markdown` gives a page with one section per relation.
    """
    import polars as pl

    from atlas.dictionary import describe_blank, to_markdown

    if db is None:
        dictionary = describe_blank()
    else:
        with open_atlas(db) as a:
            dictionary = a.schema()
    if relation is not None:
        dictionary = select_relation(dictionary, relation)
    if is_page(out["format_"], out["output"]):
        print_page(to_markdown(dictionary), out["output"])
        return
    shown = ["relation", "column", "type", "meaning"] if out["format_"] in (None, "table") else dictionary.columns
    emit(dictionary.select(pl.col(shown)), **out)


def is_page(format_: str | None, output: Path | None) -> bool:
    return format_ == "markdown" or (format_ is None and output is not None and output.suffix == ".md")


def print_page(page: str, output: Path | None) -> None:
    if output is None:
        click.echo(page)
        return
    from atlas.export.files import write_file

    write_file(output, f"{page}\n".encode())


def select_relation(dictionary: Any, relation: str) -> Any:
    from atlas.cli.near import did_you_mean

    names = dictionary["relation"].unique(maintain_order=True).to_list()
    if relation not in names:
        raise click.UsageError(f"no table or view '{relation}'{did_you_mean(relation, names)}")
    return dictionary.filter(relation=relation)
