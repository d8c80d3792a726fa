"""`atlas trace "…"`: a prompt of yours through the atlas's own model, as it is and with parts of the model switched."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from atlas.cli.options import chosen, db_option, open_atlas, use_color
from atlas.cli.shown import shown_progress
from atlas.export.visible import visible_line
from schema.errors import AtlasError

if TYPE_CHECKING:
    import polars as pl

    from atlas.live import LiveTrace

N_TOKENS = 10
N_SUB_UPDATES = 10


@click.command()
@click.argument("texts", nargs=-1, required=True, metavar="TEXT")
@db_option
@click.option("--set", "switches", multiple=True, metavar="L20N630=max*0.5", help="Switch a neuron or a head; all of them together are one arm.")
@click.option(
    "--arm", "files", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="A JSON list of interventions: an arm."
)
@click.option("--generate", "n_new", default=0, type=click.IntRange(0), metavar="N", help="Go on with N tokens, the likeliest each time.")
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
@click.option("--index", default=-1, show_default=True, help="Which token's prediction is taken apart, from 0; below it, from the end.")
@click.option("--corpus", default=0, show_default=True, type=click.IntRange(0), help="The corpus whose largest coefficients --set multiplies.")
def command(
    texts: tuple[str, ...], db: Path | None, switches: tuple[str, ...], files: tuple[Path, ...], n_new: int, seed: int | None, title: str | None,
    n_off: int | None, layers: tuple[int, ...], index: int, corpus: int,
) -> None:  # fmt: skip
    """Trace TEXT, a prompt: what the model predicts after each token, and what promotes it.

    The model lives in a process of its own, which this starts (`atlas live`); the first prompt waits for the weights.

    With --switch-off there may be several prompts. What each sub-update's score foretells is then shown beside what the answer's logit loses without it.

    \b
    atlas trace "The city council met on Monday to" --db demo.duckdb --set L20N630=max*0.5
    atlas trace "The city council met on Monday to" --db demo.duckdb --switch-off 10 --layer 29 --save "is a score an effect?"
    """
    if n_off is not None:
        if switches or files or n_new:
            raise AtlasError("--switch-off makes the arms itself: leave out --set, --arm and --generate")
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
        found = a.live().trace(texts[0], arms, n_new=n_new, seed=seed, corpus_id=corpus, progress=progress)
        at = found.position_id(index)
        progress({"stage": ""})
        click.echo(page(found, names, at, corpus), color=None if use_color() else False)
        if title is not None:
            number = found.save(title)
            click.echo(f"kept as experiment {number}: atlas ask before_after --experiment {number} --prompt 0 --arm 1 --db {db}", err=True)


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


def page(found: "LiveTrace", names: Sequence[str], at: int, corpus: int) -> str:
    from atlas.export.terminal import terminal_table

    parts = [("", tokens(found))]
    parts += [(f"arm {k}, {name}", arm(found, k)) for k, name in enumerate(names, start=1)]
    index = found.positions.filter(position_id=at)["index"].item()
    parts.append((f"after token {index}", leading(found, index)))
    parts.append((f"what its prediction gets from neurons (frozen norm, logits), largest {N_SUB_UPDATES} of those kept", promoting(found, at, corpus)))
    if (texts := found.continuations).height:
        parts.append(("it goes on", texts.drop("arm_id")))
    return "\n".join(line for title, frame in parts for line in (*([click.style(title, bold=True)] if title else []), terminal_table(frame)))


def tokens(found: "LiveTrace") -> "pl.DataFrame":
    return found.positions.filter(arm_id=0).drop("arm_id", "position_id")


def arm(found: "LiveTrace", k: int) -> "pl.DataFrame":
    return found.compare().filter(arm_id=k).drop("arm_id", "arm", "is_as_base")


def leading(found: "LiveTrace", index: int) -> "pl.DataFrame":
    """The most likely next tokens, of the base and of each arm side by side."""
    import polars as pl

    frame = found.sql(LEADING.format(index=index, n=N_TOKENS))
    arms = frame["arm"].unique(maintain_order=True)
    parts = [frame.filter(arm=name).select(pl.col("token").alias(name), pl.col("prob").alias(f"{name} prob")) for name in arms]
    return pl.concat(parts, how="horizontal")


LEADING = """
SELECT a.name AS arm, k.text AS token, o.prob
FROM live_outcome_token AS o
INNER JOIN live_arm AS a ON o.arm_id = a.arm_id
INNER JOIN token AS k ON o.token_id = k.token_id
WHERE o.index = {index} AND o.rank <= {n}
ORDER BY o.arm_id, o.rank
"""


def promoting(found: "LiveTrace", at: int, corpus: int) -> "pl.DataFrame":
    return found.sql(PROMOTING.format(at=at, n=N_SUB_UPDATES, corpus=corpus))


PROMOTING = """
SELECT
    'L' || u.layer || 'N' || u.neuron AS neuron, u.coefficient, u.coefficient / if(u.coefficient > 0, s.max, s.min) AS of_its_largest,
    u.final_frozen_score, u.share,
    (
        SELECT list(k.text ORDER BY v.rank) FROM value_token AS v INNER JOIN token AS k ON v.token_id = k.token_id
        WHERE
            v.layer = u.layer AND v.neuron = u.neuron AND v.rank <= 5 AND v.direction = if(u.coefficient >= 0, 'promoted', 'suppressed')
    ) AS promotes
FROM dominant_sub_update AS u
LEFT JOIN neuron_statistics AS s ON u.layer = s.layer AND u.neuron = s.neuron AND s.corpus_id = {corpus}
WHERE u.position_id = {at}
ORDER BY abs(u.final_frozen_score) DESC, u.layer, u.neuron
LIMIT {n}
"""
