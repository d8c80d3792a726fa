"""Waterfall of a token: the parts that sum to its logit. Pure: rows of the questions in; steps, a sentence and HTML out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import polars as pl

from atlas.address import Head
from atlas.export.visible import visible_text

Row = Mapping[str, Any]

NAMES = {"token": "token embedding", "position": "position embedding", "constant": "constant of the output head", "residual": "residue of rounding"}
OF_LAYER = {"attention_bias": "attention bias", "ffn": "FFN", "ffn_bias": "FFN bias"}
"""Kind of part → its name, which in OF_LAYER follows the name of its layer."""

N_NAMED = 3
"""Maximum number of parts that the sentence names in each direction."""


@dataclass(frozen=True)
class Step:
    """A part of a sum: the amount that it adds, and the sum before and after it, in logits. layer, head: the part's own, None if it has none."""

    name: str
    kind: str
    layer: int | None
    head: int | None
    amount: float
    before: float
    after: float


def name_of(row: Row) -> str:
    if row["kind"] == "head":
        return str(Head(row["layer"], row["head"]))
    if row["kind"] == "rest":
        return f"{row['n_parts']:,} other parts"
    return f"L{row['layer']} {OF_LAYER[row['kind']]}" if row["kind"] in OF_LAYER else NAMES[row["kind"]]


def of_parts(parts: Iterable[Row], mean_logit: float) -> list[Step]:
    """Stack rows of the question prediction_parts, from the mean logit of the vocabulary, which says nothing about a token, to the token's own logit."""
    return stack_steps([{"kind": "mean", "layer": None, "head": None, "amount": mean_logit, "name": "mean of all logits"}, *amounts(parts, "centred_logit")])


def of_difference(parts: Iterable[Row]) -> list[Step]:
    """Stack rows of the question prediction_difference, from 0 to the difference of the two logits."""
    return stack_steps(amounts(parts, "difference"))


def amounts(parts: Iterable[Row], column: str) -> list[dict[str, Any]]:
    return [{"kind": row["kind"], "layer": row["layer"], "head": row["head"], "amount": row[column], "name": name_of(row)} for row in parts]


def stack_steps(rows: Sequence[Row]) -> list[Step]:
    steps, total = [], 0.0
    for row in rows:
        steps.append(Step(row["name"], row["kind"], row["layer"], row["head"], row["amount"], total, total + row["amount"]))
        total += row["amount"]
    return steps


def frame(steps: Sequence[Step]) -> pl.DataFrame:
    """Tabulate steps for a chart: columns name, amount, before, after."""
    return pl.DataFrame([{"name": s.name, "amount": s.amount, "before": s.before, "after": s.after} for s in steps])


def sentence(steps: Sequence[Step], what: str) -> str:
    """Describe which parts lift and lower the sum most, and what all others add together. what: name of the sum, such as 'The logit of ␣a'."""
    parts = [s for s in steps if s.kind not in ("mean", "rest", "residual")]
    up, down = ([s for s in parts if s.amount * sign > 0][:N_NAMED] for sign in (1, -1))
    said = [f"{what} is {number(steps[-1].after)}"] if steps else []
    said += [f"{word} most: {', '.join(f'{s.name} {format_signed(s.amount)}' for s in of)}" for word, of in (("lifted", up), ("lowered", down)) if of]
    said += [f"the {s.name} together {format_signed(s.amount)}" for s in steps if s.kind == "rest"]
    return "; ".join(said) + "." if said else ""


def html(steps: Sequence[Step], total: str, stored: float, href: Callable[[Step], str | None], controls: Callable[[Step], str] = lambda _: "") -> str:
    """Build a table whose rows are parts, each a link, with a bar from the sum before it to the sum after it.

    total: name of the sum; stored: the model's own value of it.
    """
    low, high = min(0.0, *(s.after for s in steps)), max(0.0, *(s.after for s in steps))
    wide = high - low or 1.0
    lines = [line(s, href(s), controls(s), 100 * (min(s.before, s.after) - low) / wide, 100 * abs(s.amount) / wide) for s in steps]
    foot = f'<tr class="sum"><th scope="row">{escape(total)}</th><td>{number(stored)}</td><td>{number(steps[-1].after)}</td><td></td></tr>'
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Part", "Adds", "Sum", ""))
    return f'<div class="lens fall"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}{foot}</tbody></table></div>'


def line(step: Step, href: str | None, control: str, left: float, width: float) -> str:
    name = escape(step.name)
    named = f'<a href="{escape(href, quote=True)}">{name}</a>' if href else name
    bar = f'<span class="{"up" if step.amount >= 0 else "down"}" style="margin-left:{left:.2f}%;width:{max(width, 0.15):.2f}%"></span>'
    return f'<tr><th scope="row">{named}{control}</th><td>{format_signed(step.amount)}</td><td>{number(step.after)}</td><td>{bar}</td></tr>'


def format_signed(value: float) -> str:
    """Format a number with its sign and a true minus; a number too small for three decimals, such as the residue of rounding, as a power of ten."""
    text = f"{value:+.3f}" if abs(value) >= 0.0005 or value == 0 else f"{value:+.0e}"
    return text.replace("-", "−")


def number(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def target_name(text: str) -> str:
    return f"logit of {visible_text(text)}"
