"""`atlas export`: a question or a SELECT to a file, with its provenance beside it."""

import click

from atlas.cli.ask import Asks
from atlas.cli.sql import sql_command


class Exports(Asks):
    """Group with a command for every question, and `sql`; each requires -o."""

    to_file = True

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "sql"]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return sql_command(to_file=True) if name == "sql" else super().get_command(ctx, name)


@click.group(cls=Exports, subcommand_metavar="QUESTION [OPTIONS] -o FILE")
def command() -> None:
    """Write a question, or one SELECT, to a file; the suffix determines the format.

    .csv .json .jsonl .parquet .md .tex .txt. FILE.provenance.json beside it says which model, corpora, SQL and versions the rows come from.

    CSV holds every value as it is: a token such as =1+1, @x, -1 or +1 would be a formula to a spreadsheet program, so import such columns as text.
    """
