"""Sentences on the rows of panels on FFNs and heads, one for each question. Pure: rows in, words out; there is at least one row."""

from typing import Any

import polars as pl

from atlas.address import Head
from atlas.export.visible import visible_text
from atlas.papers.words import NONE, number, percent, ratio, total
from ui.number_format import format_count

Row = dict[str, Any]


def first_row(frame: pl.DataFrame) -> Row:
    return frame.row(0, named=True)


def head_address(row: Row, prefix: str = "") -> str:
    """Write a head's address, such as 'L3H7'."""
    return str(Head(row[f"{prefix}layer"], row[f"{prefix}head"]))


def format_signed(value: float | None, format: str = "+.2f") -> str:
    """Format a number with its sign and a true minus; – if there is no number."""
    return NONE if value is None else f"{value:{format}}".replace("-", "−")


def describe_table4(frame: pl.DataFrame) -> str:
    """Describe what the strongest and the weakest of ten dominant sub-updates add, and how many eliminations take down the token just read."""
    said = [
        f"at {row['n_events']:,} events of {row['event']} the strongest of the ten dominant sub-updates adds {format_signed(row['max_score'])} "
        f"and the weakest {format_signed(row['min_score'])}"
        for row in frame.filter(selection="dominant").iter_rows(named=True)
    ]
    taken_down = describe_echo(frame.filter(event="elimination", selection="dominant"), "n_events", "n_input_token")
    return f"To the token that rises or falls: {'; '.join(said)}. {taken_down}".strip()


def describe_echo(frame: pl.DataFrame, n: str, n_input: str) -> str:
    """Describe how many eliminations take down the token just read, and what that means; '' if there are no eliminations."""
    if not frame.height or not int(frame[n].sum()):
        return ""
    return (
        f"Of the {total(frame, n, 'eliminations')} {total(frame, n_input, 'take down')} the very token that was just read "
        f"({percent(ratio(frame, n_input, n), 0)}): where input and output embeddings are tied it leads in the first layers without being a prediction."
    )


def describe_fig3(frame: pl.DataFrame) -> str:
    strong = frame.filter(selection="dominant")
    top = strong.sort("max_score", descending=True, nulls_last=True).row(0, named=True)
    low = strong.sort("min_score", nulls_last=True).row(0, named=True)
    return (
        f"The ten dominant sub-updates of a layer raise its candidate most in layer {top['layer']} (the largest by "
        f"{format_signed(top['max_score'])} on average) and lower it most in layer {low['layer']} (the smallest by {format_signed(low['min_score'])})."
    )


def describe_events(frame: pl.DataFrame) -> str:
    found = {column: frame.filter(pl.col(column) == pl.col(column).max())["layer"][0] for column in ("n_saturations", "n_eliminations")}
    numbers = {c: int(frame[c].sum()) for c in found}
    said = "; ".join(f"{format_count(n, c[2:-1])}, most in layer {found[c]}" if n else f"no {c[2:]}" for c, n in numbers.items())
    return f"{said}. {describe_echo(frame, 'n_eliminations', 'n_input_eliminations')}".strip()


def describe_saturations(frame: pl.DataFrame) -> str:
    row = first_row(frame)
    return (
        f"The FFN of layer {row['layer']} lifts {visible_text(row['final_token'])} from probability {row['final_prob_before']:.3f} to "
        f"{row['final_prob_after']:.3f}: no other gains more."
    )


def describe_eliminations(frame: pl.DataFrame) -> str:
    n = int(frame["is_input_token"].sum())
    row = first_row(frame)
    return (
        f"The candidate that falls furthest is {visible_text(row['candidate'])}, to rank {row['candidate_rank_after']:,} in layer {row['layer']}. "
        f"Of these {format_count(frame.height, 'event')} {n:,} {'takes' if n == 1 else 'take'} down the very token that was just read."
    )


def describe_behaviour(frame: pl.DataFrame) -> str:
    """Describe which head shows a behaviour most. frame: rows in the order of how strongly heads show it, the strongest first."""
    row = first_row(frame)
    column, where = ("text", "on text") if row["probe"] is None else ("probe", "on random tokens")
    value, chance = row[column], row[f"{column}_uniform"]
    many = int((frame[column] > 0.3).sum())
    most = f"{number(value, '.2f')} of its attention {where}, where equal weights have {number(chance, '.2f')}"
    # what rounding does not tell apart is no difference
    is_shown = None in (value, chance) or round(value, 2) > round(chance, 2)
    said = f"{head_address(row)} shows it most: {most}" if is_shown else f"No head shows it: {head_address(row)}, the first, has {most}"
    return f"{said}. Of {format_count(frame.height, 'head')} {many:,} {'has' if many == 1 else 'have'} more than 0.30."


def describe_copying(frame: pl.DataFrame) -> str:
    row, ratios = first_row(frame), frame["copying_effective"]
    return (
        f"{head_address(row)} comes first, at {format_signed(row['copying_effective'])} on a scale from −1 (it suppresses what it looks at) to 1 (it copies). "
        f"Of {format_count(frame.height, 'head')} {int((ratios > 0.5).sum()):,} are above 0.5 and {int((ratios < -0.5).sum()):,} below −0.5. "
        "Weights say what a head could do, a text what it does."
    )


def describe_memory(frame: pl.DataFrame) -> str:
    row = first_row(frame)
    erased = row["mean_erased"]
    at = "no attribution says how much it deletes" if erased is None else f"it deletes {percent(erased)} of the stream on average"
    return (
        f"{head_address(row)} comes first: eigenvalue ratio {format_signed(row['stream_ratio'])} (−1: it takes all that it reads out of the stream), and {at}."
    )


def describe_edges(frame: pl.DataFrame) -> str:
    row = first_row(frame)
    reach = "reaches" if frame.height == 1 else "reach"
    return (
        f"{head_address(row)} reads {head_address(row, 'from_')} most, {format_signed(row['excess'], '+.3f')} above chance; "
        f"{format_count(frame.height, 'pair')} of heads {reach} the threshold."
    )


def describe_induction(frame: pl.DataFrame) -> str:
    row = first_row(frame)
    return (
        f"{head_address(row)}, whose keys read {head_address(row, 'from_')}, comes first, "
        f"{format_signed(row['excess'], '+.3f')} above chance, of {format_count(frame.height, 'pair')} "
        "whose weights look for earlier copies of the present token."
    )
