"""Sub-updates that were switched off, as `atlas trace --switch-off` shows them: what each score said, and what came of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from atlas.cli.options import open_atlas, use_color

if TYPE_CHECKING:
    from atlas.live import SwitchedOff

MOST_SHOWN = 20


def show_switched(found: "SwitchedOff", db: Path, title: str | None) -> None:
    """The largest effects; where they are kept, scores and effects of each layer too."""
    import polars as pl

    from atlas.export.terminal import terminal_table

    frame = found.frame.sort(pl.col("effect").abs(), descending=True)
    of = f"the largest {MOST_SHOWN} of {frame.height}" if frame.height > MOST_SHOWN else str(frame.height)
    click.echo(click.style(f"sub-updates switched off ({of}): what the score says, and what the answer's logit loses", bold=True))
    click.echo(terminal_table(frame.head(MOST_SHOWN)), color=None if use_color() else False)
    if title is None:
        click.echo('note: with --save "TITLE" it is kept, and score_and_effect tells how well the scores of each layer foretell', err=True)
        return
    number = found.save(title)
    with open_atlas(db) as a:
        click.echo(terminal_table(a.ask("score_and_effect", number)), color=None if use_color() else False)
    click.echo(f"kept as experiment {number}: atlas ask score_and_effect --experiment {number} --db {db}", err=True)
