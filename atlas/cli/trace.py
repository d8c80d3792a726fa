"""`atlas trace "…"`: a prompt of yours through the atlas's own model, as it is and with parts of the model switched."""

from pathlib import Path
from typing import Any

import click

from atlas.cli.options import chosen, db_option, open_atlas
from atlas.cli.shown import shown_progress
from atlas.cli.trace_page import show
from atlas.export.visible import visible_line
from schema.errors import AtlasError


@click.command()
@click.argument("texts", nargs=-1, metavar="TEXT")
@db_option
@click.option("--set", "switches", multiple=True, metavar="L20N630=max*0.5", help="Switch a neuron or a head; all of them together are one arm.")
@click.option(
    "--arm", "files", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="A JSON list of interventions: an arm."
)
@click.option("--generate", "n_new", default=0, type=click.IntRange(0), metavar="N", help="Go on with N tokens, the likeliest each time.")
@click.option("--chat", is_flag=True, help="TEXT is what a user says, or a JSON list of messages: render it by the tokenizer's chat template.")
@click.option("--seed", type=click.IntRange(0), help="Draw them instead.")
@click.option("--save", "title", metavar="TITLE", help="Keep what came of it as an experiment beside the atlas.")
@click.option(
    "--switch-off",
    "n_off",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Switch off the N largest sub-updates of each layer at --index instead, one at a time.",
)
@click.option("--layer", "layers", multiple=True, type=click.IntRange(0), metavar="L", help="Of these layers alone.")
@click.option("--with-trace", is_flag=True, help="With --save: keep the states too, to be shown again with --kept.")
@click.option("--kept", type=int, metavar="EXPERIMENT", help="Show what was kept so; no model is needed.")
@click.option("--index", default=-1, show_default=True, help="Which token's prediction is taken apart, from 0; below it, from the end.")
@click.option("--corpus", default=0, show_default=True, type=click.IntRange(0), help="The corpus whose largest coefficients --set multiplies.")
def command(
    texts: tuple[str, ...], db: Path | None, switches: tuple[str, ...], files: tuple[Path, ...], n_new: int, chat: bool, seed: int | None,
    title: str | None, n_off: int | None, layers: tuple[int, ...], with_trace: bool, kept: int | None, index: int, corpus: int,
) -> None:  # fmt: skip
    """Trace TEXT, a prompt: what the model predicts after each token, and what promotes it.

    The model lives in a process of its own, which this starts (`atlas live`); the first prompt waits for the weights.

    With --switch-off there may be several prompts. What each sub-update's score foretells is then shown beside what the answer's logit loses without it.

    \b
    atlas trace "The city council met on Monday to" --db demo.duckdb --set L20N630=max*0.5
    atlas trace "The city council met on Monday to" --db demo.duckdb --switch-off 10 --layer 29 --save "is a score an effect?"
    """
    if kept is not None:
        require_alone("--kept shows what there is", texts, switches, files, n_new, n_off, title, chat)
        with open_atlas(db) as a:
            show(a.live().kept(kept), None, index, corpus)
        return
    if not texts:
        raise click.UsageError("which prompt? Give TEXT")
    if with_trace and title is None:
        raise AtlasError("--with-trace says what --save keeps: give --save TITLE too")
    if n_off is not None:
        require_alone("--switch-off makes the arms itself", switches, files, n_new, with_trace, chat)
        with open_atlas(db) as a, shown_progress() as progress:
            switched = a.live().switch_off(texts, n_off, layers=layers or None, index=index, progress=progress)
        from atlas.cli.switched import show_switched

        show_switched(switched, chosen(db), title)
        return
    if len(texts) > 1 or layers:
        raise AtlasError("several prompts, and --layer, are for --switch-off; without it one prompt is traced, in all layers")
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
            click.echo(f"kept as experiment {number}: {again} --db {db}", err=True)


def require_alone(why: str, *others: object) -> None:
    if any(others):
        raise AtlasError(f"{why}: leave out --set, --arm, --generate and what else is for a prompt of its own")


def arm_in(path: Path) -> list[dict[str, Any]]:
    """Raises AtlasError, with the file's name, for one that cannot be read or is no arm. Of a file that is too long no more is read than shows it."""
    from schema.interventions.parse import parse_arm
    from schema.interventions.reading import MOST_BYTES

    try:
        with path.open("rb") as file:
            return [change.as_json() for change in parse_arm(file.read(MOST_BYTES + 1))]
    except OSError as error:
        raise AtlasError(f"{path} cannot be read: {error.strerror}") from error
    except AtlasError as error:
        raise AtlasError(f"{path}: {error}") from error
