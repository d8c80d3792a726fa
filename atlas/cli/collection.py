"""`atlas collection`: named sets of neurons, heads, positions and tokens, beside an atlas."""

from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from atlas.cli.options import db_option, emit, open_atlas, output_options

if TYPE_CHECKING:
    from atlas.api import Atlas
    from atlas.beside.collections.members import Member


@click.group()
def command() -> None:
    """Put neurons, heads, positions and tokens together under a name.

    \b
    atlas collection add money L20N100 L7H3 --by ada --db demo.duckdb
    atlas collection add money --sql "FROM neurons_promoting('money')" --by ada --db demo.duckdb
    atlas sql "FROM neuron SEMI JOIN collections.in_collection('money') USING (layer, neuron)" --db demo.duckdb

    Collections are stored beside the atlas, in demo.collections.duckdb, and stay when the atlas is ingested again. In SQL they are
    in the database collections: FROM collections.collection_member.
    """


@command.command(name="list")
@db_option
@output_options()
def list_command(db: Path | None, **out: Any) -> None:
    """List the collections, and how many members of each kind they have."""
    with open_atlas(db) as a:
        if print_answer(a, "collections", {}, out) == 0:
            how = f"atlas collection add first --sql 'FROM neuron LIMIT 3' --by YOU --db {quote(str(a.path))}"
            click.echo(f"note: no collections yet; `{how}` makes a collection that holds three neurons", err=True)


@command.command(name="show")
@click.argument("name")
@db_option
@output_options()
def show_command(name: str, db: Path | None, **out: Any) -> None:
    """Print the members of collection NAME, or write them to the file of -o, in the order in which they were added."""
    with open_atlas(db) as a:
        print_answer(a, "in_collection", {"collection": name}, out)


def print_answer(a: "Atlas", question: str, arguments: dict[str, object], out: dict[str, Any]) -> int:
    """Print or write the answer to a question; return how many rows it has."""
    from atlas.answers import read_answer
    from atlas.export.provenance import provenance
    from atlas.left_out import describe_left_out

    frame = read_answer(a.con, question, **arguments)
    if said := describe_left_out(a.con, "collections"):
        click.echo(f"note: {said}", err=True)
    emit(frame, provenance=partial(provenance, a.con, a.path, sql=question, n_rows=frame.height, question=question, parameters=arguments), **out)
    return frame.height


def thing_options(command: Any) -> Any:
    for option in (
        click.option("--sql", metavar="SELECT", help="Take members from the rows of one SELECT: layer and neuron, layer and head, position_id, or token_id."),
        click.option("--token", "tokens", multiple=True, metavar="TEXT", help="A token of the vocabulary, with its leading space. May be given again."),
        click.option("--position", "positions", multiple=True, type=click.IntRange(min=0), metavar="ID", help="A position_id. May be given again."),
    ):
        command = option(command)
    return click.argument("addresses", nargs=-1, metavar="[ADDRESS]...")(command)


@command.command(name="add")
@click.argument("name")
@thing_options
@click.option("--by", required=True, metavar="WHO", help="Your name: who adds the members.")
@click.option("--note", default="", metavar="TEXT", help="What a new collection contains.")
@click.option("--member-note", default="", metavar="TEXT", help="A note on the members that are added.")
@db_option
def add_command(name: str, by: str, note: str, member_note: str, db: Path | None, **things: Any) -> None:
    """Add addresses such as L20N100 and L7H3, positions, tokens, or the rows of a SELECT to collection NAME, which is created if needed."""
    from atlas.beside.collections import keeping

    with open_atlas(db) as a:
        n, n_there = keeping.add(a.con, a.path, name, members(a, **things), by=by, note=note, member_note=member_note)
    click.echo(f"{name}: {n:,} added{f', {n_there:,} were in it already' if n_there else ''}", err=True)


def members(a: "Atlas", addresses: tuple[str, ...], positions: tuple[int, ...], tokens: tuple[str, ...], sql: str | None) -> "list[Member]":
    """List the members that the command line names. Raises AtlasError for a token that the vocabulary does not have."""
    from atlas.beside.collections.members import component, in_rows, position, token
    from atlas.cursors import fetch_rows
    from schema.errors import AtlasError

    found = [*map(component, addresses), *map(position, positions)]
    for text in tokens:
        ids = fetch_rows(a.con, "SELECT t.token_id FROM token AS t WHERE t.text = $text ORDER BY t.token_id", {"text": text})
        if not ids:
            raise AtlasError(f"no token {text!r} in the vocabulary; most tokens that begin a word begin with a space")
        found += [token(i) for (i,) in ids]
    if sql is not None:
        found += in_rows(a.sql(sql, max_rows=200_000, timeout=60, own_process=True))
    return found


@command.command(name="remove")
@click.argument("name")
@thing_options
@click.option("--whole", is_flag=True, help="Remove the collection itself, with all that is in it.")
@db_option
def remove_command(name: str, whole: bool, db: Path | None, **things: Any) -> None:
    """Remove members from collection NAME, or the whole collection with --whole."""
    from atlas.beside.collections import keeping

    if whole == any(things.values()):
        raise click.UsageError("name the members to remove, or give --whole to remove the collection")
    with open_atlas(db) as a:
        n = keeping.remove_whole(a.path, name) if whole else keeping.remove(a.path, name, members(a, **things))
    click.echo(f"{name}: {n:,} removed{', and the collection with them' if whole else ''}", err=True)


@command.command(name="rename")
@click.argument("name")
@click.argument("to")
@db_option
def rename_command(name: str, to: str, db: Path | None) -> None:
    """Give collection NAME the name TO."""
    from atlas.beside.collections import keeping

    with open_atlas(db) as a:
        keeping.rename(a.path, name, to)


@command.command(name="describe")
@click.argument("name")
@click.argument("note")
@db_option
def describe_command(name: str, note: str, db: Path | None) -> None:
    """Replace the note of collection NAME by NOTE."""
    from atlas.beside.collections import keeping

    with open_atlas(db) as a:
        keeping.describe(a.path, name, note)
