"""`atlas trace "…"`: a user's prompt, run through the atlas's own model as it is and with parts of the model switched.

The terminal shows the progress of the model process, and then the effects of sub-updates that were switched off.
"""

import shutil
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from atlas.cli.options import db_option, open_atlas, require_path, use_color
from atlas.cli.trace_page import show
from atlas.export.visible import visible_line
from schema.errors import AtlasError
from schema.grouped_help import GroupedCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from atlas.live import SwitchOffResult
    from atlas.live.asking import Progress

MOST_SHOWN = 20


def show_switched(found: "SwitchOffResult", db: Path, title: str | None) -> None:
    """Print the largest effects; if `title` is given, save them as an experiment, and print scores and effects of each layer too."""
    import polars as pl

    from atlas.export.terminal import terminal_table

    frame = found.frame.sort(pl.col("effect").abs(), descending=True)
    of = f"the largest {MOST_SHOWN} of {frame.height}" if frame.height > MOST_SHOWN else str(frame.height)
    click.echo(click.style(f"sub-updates switched off ({of}): the score of each, and what the answer's logit loses without it", bold=True))
    click.echo(terminal_table(frame.head(MOST_SHOWN)), color=None if use_color() else False)
    if title is None:
        click.echo(
            'note: --save "TITLE" stores the result; the question score_and_effect then tells how well the scores of each layer predict the effects', err=True
        )
        return
    number = found.save(title)
    with open_atlas(db) as a:
        click.echo(terminal_table(a.ask("score_and_effect", number)), color=None if use_color() else False)
    click.echo(f"saved as experiment {number}: atlas ask score_and_effect --experiment {number} --db {db}", err=True)


@contextmanager
def shown_progress(names: Sequence[str] = ()) -> "Iterator[Progress]":
    """Show progress on a terminal until the block ends. names: names of the base and the arms, in the order of their texts."""
    n_lines = 1

    def show(said: dict[str, Any]) -> None:
        nonlocal n_lines
        if sys.stderr.isatty():
            lines = lines_of(said, names, shutil.get_terminal_size().columns - 1)
            up = f"\x1b[{n_lines - 1}A" if n_lines > 1 else ""
            # to the first of the lines that are there, and everything from there on away
            click.echo(f"{up}\r\x1b[J" + "\n".join(lines) + ("" if lines[0] else "\r"), nl=False, err=True)
            n_lines = len(lines)

    try:
        yield show
    finally:
        show({"stage": ""})


def lines_of(said: dict[str, Any], names: Sequence[str], width: int) -> list[str]:
    """Format one line for the current stage and one for each text, with its name and as much of its end as fits."""
    from rich.cells import cell_len

    words = f"{said['waiting']} before you in line" if "waiting" in said else said["stage"]
    share = said.get("share", 0)
    lines = [visible_line(f"{words} {share:.0%}" if share else words)[:width]]
    for name, text in zip(names, said.get("texts", ()), strict=False):
        head, text = visible_line(name)[: width // 2] + ":", visible_line(text)
        while text and cell_len(head + text) > width:
            text = text[1:]
        lines.append(head + text)
    return lines


GROUPS = {
    "The prompt": ("db", "chat", "index"),
    "What is switched": ("switches", "files", "corpus", "n_off", "layers"),
    "The result": ("n_new", "seed", "title", "with_trace", "kept"),
}
"""Headings of the help, and their options."""


@click.command(cls=GroupedCommand, groups=GROUPS)
@click.argument("texts", nargs=-1, metavar="TEXT")
@db_option
@click.option("--set", "switches", multiple=True, metavar="L20N630=max*0.5", help="Switch a neuron or a head; all --set options together are one arm.")
@click.option(
    "--arm",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with a JSON list of interventions: one more arm.",
)
@click.option("--generate", "n_new", default=0, type=click.IntRange(0), metavar="N", help="Continue the prompt by N tokens, the likeliest each time.")
@click.option("--chat", is_flag=True, help="TEXT is what a user says, or a JSON list of messages: render it by the tokenizer's chat template.")
@click.option("--seed", type=click.IntRange(0), help="With --generate: draw the tokens by this seed instead.")
@click.option("--save", "title", metavar="TITLE", help="Save the result as an experiment beside the atlas.")
@click.option(
    "--switch-off",
    "n_off",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Instead of --set: switch off the N largest sub-updates of each layer at --index, one at a time.",
)
@click.option("--layer", "layers", multiple=True, type=click.IntRange(0), metavar="L", help="With --switch-off: in these layers only.")
@click.option("--with-trace", is_flag=True, help="With --save: store the states too, so that --kept can show them.")
@click.option("--kept", type=int, metavar="EXPERIMENT", help="Show a trace that was saved with --with-trace; no model is needed.")
@click.option("--index", default=-1, show_default=True, help="Index of the token whose prediction is taken apart, from 0; a negative one counts from the end.")
@click.option("--corpus", default=0, show_default=True, type=click.IntRange(0), help="The corpus whose largest coefficients --set multiplies.")
def command(
    texts: tuple[str, ...], db: Path | None, switches: tuple[str, ...], files: tuple[Path, ...], n_new: int, chat: bool, seed: int | None,
    title: str | None, n_off: int | None, layers: tuple[int, ...], with_trace: bool, kept: int | None, index: int, corpus: int,
) -> None:  # fmt: skip
    """Trace TEXT, a prompt: what the model predicts after each token, and what promotes it.

    The model runs in a separate process (`atlas live`), which this command starts; the first prompt waits until the weights are loaded.

    With --switch-off, several prompts can be given. The score of each sub-update is then shown beside what the answer's logit loses without it.

    \b
    atlas trace "The city council met on Monday to" --db demo.duckdb --set L20N630=max*0.5
    atlas trace "The city council met on Monday to" --db demo.duckdb --switch-off 10 --layer 29 --save "is a score an effect?"
    """
    if kept is not None:
        require_alone("--kept shows a saved trace", texts, switches, files, n_new, n_off, title, chat)
        with open_atlas(db) as a:
            show(a.live().kept(kept), None, index, corpus)
        return
    if not texts:
        raise click.UsageError("which prompt? Give TEXT")
    if with_trace and title is None:
        raise AtlasError("--with-trace makes --save store the states too: give --save TITLE")
    if n_off is not None:
        require_alone("--switch-off makes the arms itself", switches, files, n_new, with_trace, chat)
        with open_atlas(db) as a, shown_progress() as progress:
            switched = a.live().switch_off(texts, n_off, layers=layers or None, index=index, progress=progress)

        show_switched(switched, require_path(db), title)
        return
    if len(texts) > 1 or layers:
        raise AtlasError("several prompts, and --layer, need --switch-off; without it, one prompt is traced in all layers")
    arms: list[Any] = [list(switches)] if switches else []
    arms += [arm_in(path) for path in files]
    names = [*([", ".join(switches)] if switches else []), *(visible_line(str(path)) for path in files)]
    with open_atlas(db) as a, shown_progress(["base", *names]) as progress:
        found = a.live().trace(texts[0], arms, n_new=n_new, seed=seed, corpus_id=corpus, chat=chat, progress=progress)
        progress({"stage": ""})
        show(found, names, index, corpus)
        if title is not None:
            number = found.save(title, with_trace=with_trace)
            again = f"atlas trace --kept {number}" if with_trace else f"atlas ask before_after --experiment {number} --prompt 0 --arm 1"
            click.echo(f"saved as experiment {number}: {again} --db {db}", err=True)


def require_alone(why: str, *others: object) -> None:
    if any(others):
        raise AtlasError(f"{why}: leave out --set, --arm, --generate and the other options of a single prompt")


def arm_in(path: Path) -> list[dict[str, Any]]:
    """Read an arm from a file; of a file that is too long, only enough is read to find that out.

    Raises AtlasError, with the file's name, if it cannot be read or is not an arm.
    """
    from schema.interventions.parse import parse_arm
    from schema.reading import MOST_BYTES

    try:
        with path.open("rb") as file:
            return [change.as_json() for change in parse_arm(file.read(MOST_BYTES + 1))]
    except OSError as error:
        raise AtlasError(f"{path} cannot be read: {error.strerror}") from error
    except AtlasError as error:
        raise AtlasError(f"{path}: {error}") from error
