"""`atlas questions`: the list of questions, a search in the list, or one question with its SQL."""

from typing import Any

import click

from atlas.cli.options import emit, output_options
from atlas.questions import explain_unknown_name, find_questions, questions
from schema.errors import AtlasError


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME | WORD…]")
@output_options()
def command(words: tuple[str, ...], **out: Any) -> None:
    """List all questions, or those with every WORD in name, title or source; for the NAME of a question, print its header and SQL. No atlas is needed."""
    if len(words) == 1 and words[0] in questions():
        click.echo(questions()[words[0]].sql, nl=False)
        return
    found = find_questions(" ".join(words))
    if not found:
        raise AtlasError(explain_unknown_name(" ".join(words)))
    import polars as pl

    rows = [{"question": q.macro, "title": q.title, "call": q.signature, "source": q.source} for q in found]
    emit(pl.DataFrame(rows), **out)
