"""A traced prompt on one page: its tokens, what each arm changes, and what promotes a prediction."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from atlas.cli.options import use_color
from atlas.export.visible import visible_line

if TYPE_CHECKING:
    import polars as pl

    from atlas.live import LiveTrace

N_TOKENS = 10
N_SUB_UPDATES = 10


def show(found: "LiveTrace", names: Sequence[str] | None, index: int, corpus: int) -> None:
    """Print the page of a trace. names: names of the arms; None for the names that are stored in the trace."""
    if names is None:
        names = [visible_line(name) for name in found.sql("SELECT name FROM live_arm WHERE arm_id > 0 ORDER BY arm_id")["name"]]
    click.echo(page(found, names, found.position_id(index), corpus), color=None if use_color() else False)


def page(found: "LiveTrace", names: Sequence[str], at: int, corpus: int) -> str:
    from atlas.export.terminal import terminal_table

    parts = [("", tokens(found))]
    parts += [(f"arm {k}, {name}", arm(found, k)) for k, name in enumerate(names, start=1)]
    index = found.positions.filter(position_id=at)["index"].item()
    parts.append((f"after token {index}", list_next_tokens(found, index)))
    parts.append(
        (f"what neurons add to its prediction (frozen norm, logits): the largest {N_SUB_UPDATES} of those stored", promoting_neurons(found, at, corpus))
    )
    if (texts := found.continuations).height:
        parts.append(("continuations", texts.drop("arm_id")))
    return "\n".join(line for title, frame in parts for line in (*([click.style(title, bold=True)] if title else []), terminal_table(frame)))


def tokens(found: "LiveTrace") -> "pl.DataFrame":
    return found.positions.filter(arm_id=0).drop("arm_id", "position_id", "surprisal")


def arm(found: "LiveTrace", k: int) -> "pl.DataFrame":
    return found.compare().filter(arm_id=k).drop("arm_id", "arm", "is_as_base")


def list_next_tokens(found: "LiveTrace", index: int) -> "pl.DataFrame":
    """List the most likely next tokens, of the base and of each arm side by side."""
    import polars as pl

    frame = found.leading_tokens(index, N_TOKENS)
    arms = frame.select("arm_id", "arm").unique(maintain_order=True)
    heads = headings(arms["arm_id"].to_list(), arms["arm"].to_list())
    parts = [frame.filter(arm_id=k).select(pl.col("token").alias(token), pl.col("prob").alias(prob)) for k, (token, prob) in heads.items()]
    return pl.concat(parts, how="horizontal")


def headings(arm_ids: Sequence[int], names: Sequence[str]) -> dict[int, tuple[str, str]]:
    """Name the two columns of each arm: arm_id → (token, probability). Names include the arm's number if they are not unique otherwise."""
    plain = {k: (name, f"{name} prob") for k, name in zip(arm_ids, names, strict=True)}
    if len({column for pair in plain.values() for column in pair}) == 2 * len(plain):
        return plain
    return {k: (f"{k}: {name}", f"{k}: {name} prob") for k, (name, _) in plain.items()}


def promoting_neurons(found: "LiveTrace", at: int, corpus: int) -> "pl.DataFrame":
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
