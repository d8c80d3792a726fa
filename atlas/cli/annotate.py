"""`atlas annotate`: sheets for people to fill in, and the annotations loaded from them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import click

from atlas.cli.options import db_option, emit, open_atlas, output_options

F = TypeVar("F", bound=Callable[..., Any])

SUBJECTS = {"keys": "key", "values": "value", "random-vectors": "random_vector", "updates": "ffn_update"}
"""Value of --subject → stored name, as in atlas/beside/annotations/subjects.py, which is not imported for --help."""


@click.group()
def command() -> None:
    """Have people say what the texts of a key, or the tokens of a value, have in common.

    \b
    atlas annotate sheet --db demo.duckdb --subject keys -o keys.csv      a sample to fill in with a spreadsheet program
    atlas annotate load keys.csv --db demo.duckdb --annotator anna        a sheet that breaks a rule is refused, with the row
    atlas ask geva2021_fig2 --db demo.duckdb                              the figures; also geva2022_concepts, annotation_agreement, …

    Annotations are stored beside the atlas, in demo.annotations.duckdb, and stay when the atlas is ingested again. In SQL they are
    in the database annotations: FROM annotations.pattern.
    """


def sample_options(command: F) -> F:
    for option in (
        click.option("--corpus", type=click.IntRange(min=0), metavar="ID", help="The corpus whose texts are shown. [default: the only one]"),
        click.option("--seed", type=int, default=0, show_default=True, help="Another seed draws another sample."),
        click.option("--per-layer", type=click.IntRange(min=1), default=10, show_default=True, help="Keys or vectors drawn from each layer."),
    ):
        command = option(command)
    return command


@command.command(name="sheet")
@click.option(
    "--subject",
    type=click.Choice(list(SUBJECTS)),
    required=True,
    help="What to annotate: keys by the texts that trigger them, the others by the tokens they promote.",
)
@sample_options
@click.option("--annotator", metavar="NAME", help="Fill in what NAME has annotated so far, to continue it; miner for the proposals.")
@db_option
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The sheet, CSV; must not exist yet.")
def sheet_command(subject: str, per_layer: int, seed: int, corpus: int | None, annotator: str | None, db: Path | None, output: Path) -> None:
    """Write a seeded sample as a sheet to fill in: 25 texts that trigger a key most, one of a sequence, or the 30 tokens that a vector promotes most.

    Open the sheet with LibreOffice or Excel (CSV, UTF-8, separated by commas). Its first rows say how to fill it in: where at least 3 texts (4 tokens)
    of a block have something in common, give one row of the block a kind and a description, and write that row's letter in explained_by beside
    every text it explains. Write none as the kind if they have nothing in common; an empty block counts as not looked at.
    """
    from atlas.beside.annotations.steps import make_sheet
    from atlas.export.files import write_file
    from schema.errors import AtlasError

    if output.exists():
        raise AtlasError(f"{output} exists and may hold somebody's work: name another file")
    with open_atlas(db) as a:
        data, notes = make_sheet(a.con, a.path, SUBJECTS[subject], per_layer, seed, corpus, annotator)
    write_file(output, data)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"{output}: its first rows say how to fill it in", err=True)


@command.command(name="load")
@click.argument("sheet", type=click.Path(path_type=Path))
@click.option("--annotator", required=True, metavar="NAME", help="Who filled in the sheet.")
@click.option("--replace", is_flag=True, help="Replace what NAME has annotated before of the same keys or vectors.")
@db_option
@output_options()
def load_command(sheet: Path, annotator: str, replace: bool, db: Path | None, **out: Any) -> None:
    """Load a filled-in SHEET, all of it or nothing, and print what NAME and others have annotated.

    Reasons to refuse a sheet, each reported with its row: a pattern of fewer than 3 texts, a concept of fewer than 4 tokens, a pattern or concept
    without a description or of an unknown kind, texts or tokens that this atlas does not show, and keys or vectors that NAME has annotated before.
    """
    from atlas.beside.annotations.steps import load
    from atlas.export.visible import visible_line

    with open_atlas(db) as a:
        found = load(a.con, a.path, sheet, annotator, is_replacing=replace)
    left = f"; {found.n_empty} blocks are empty and count as not looked at" if found.n_empty else ""
    click.echo(f"{sheet}: {found.n} annotations by {visible_line(annotator)}{left}", err=True)
    if found.n_stay:
        said = f"{found.n_stay} of the empty blocks have earlier annotations, which stay; a first row of the kind none says that nothing was found"
        click.echo(f"note: {said}", err=True)
    print_status(db, out)


@command.command(name="propose")
@sample_options
@db_option
@output_options()
def propose_command(per_layer: int, seed: int, corpus: int | None, db: Path | None, **out: Any) -> None:
    """Propose patterns of keys: endings that 3 or more texts share, and metadata values that their documents share more than by chance.

    They are stored under the annotator miner, replace earlier proposals, and are marked as proposed: no figure counts them as a person's.
    """
    from atlas.beside.annotations.steps import propose

    with open_atlas(db) as a:
        n = propose(a.con, a.path, per_layer, seed, corpus)
    click.echo(f"proposals for {n} keys", err=True)
    print_status(db, out)


@command.command(name="status")
@db_option
@output_options()
def status_command(db: Path | None, **out: Any) -> None:
    """Say who has annotated what, how much of it is covered, and how many annotated items differ from what the atlas shows (n_stale)."""
    print_status(db, out)


def print_status(db: Path | None, out: dict[str, Any]) -> None:
    with open_atlas(db) as a:
        from atlas.beside.annotations.steps import status
        from atlas.export.provenance import provenance
        from atlas.left_out import describe_left_out

        frame, stale = status(a.con)
        begins = f"no annotations yet; `atlas annotate sheet --db {quote(str(a.path))} --subject keys -o keys.csv` writes a sheet to fill in"
        if said := describe_left_out(a.con, "annotations") or (begins if frame.is_empty() else ""):
            click.echo(f"note: {said}", err=True)
        emit(frame, provenance=partial(provenance, a.con, a.path, sql="atlas annotate status", n_rows=frame.height), **out)
    if stale:
        from atlas.export.visible import visible_line

        annotator, address, rank = stale[0]
        click.echo(
            f"note: {len(stale)} annotated items differ from what this atlas shows, such as rank {rank} of {address} by {visible_line(annotator)}", err=True
        )
