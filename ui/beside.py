"""Comparison of two atlases: what differs, then the same view of both. `vs` in the address names the atlas with which the one shown is compared."""

import html

import polars as pl
import streamlit as st

from atlas.address import Head, Neuron, parse_address
from atlas.export.visible import visible_line, visible_text
from schema.errors import AtlasError
from ui import blocks, data, frame, links
from ui.links import Link
from ui.snapshot import Snapshot, latest

VS = "vs"
"""Address parameter: the other atlas, by the name that links use."""

HEIGHT = 1400
"""Height of each view, in px."""

SHAPE = ("n_layers", "d_ffn", "n_heads")
"""Columns of table model that must agree for an address to mean the same place in both atlases."""


def page(room: str) -> None:
    """Show what differs, then the view in each atlas, each with its own links. Raises AtlasError if the other atlas is not served."""
    served, other = data.paths_by_name(), st.query_params[VS]
    if other not in served:
        frame.title("Two atlases")
        raise AtlasError(f"no atlas {other[:80]} is served here; the atlases are {', '.join(served)}")
    here, there = data.current_snapshot(), latest(served[other])
    view = links.link(room, **{name: value for name, value in st.query_params.items() if name not in (links.OF, VS)})
    title = f"{data.file_name()} beside {name_of(there)}"
    frame.tab(title)
    frame.show_heading(title, 1)
    differences(view, here, there)
    for column, snapshot, identity in zip(st.columns(2, gap="small"), (here, there), (data.identity(), other), strict=True):
        with column:
            address = links.address(view, identity)
            st.html(f'<a href="{html.escape(address)}">{html.escape(visible_line(name_of(snapshot)))} alone</a>')
            # one of our own rooms, whatever the address asked for: its parameters are encoded
            st.iframe(address, height=HEIGHT, alt=f"The view of {name_of(snapshot)}")


def name_of(snapshot: Snapshot) -> str:
    return snapshot.path.rpartition("/")[2]


def differences(view: Link, here: Snapshot, there: Snapshot) -> None:
    """Compare a component in both atlases, if the models have the same shape: top and bottom tokens that only one atlas has, and numbers that differ."""
    models = [row for snapshot in (here, there) for row in data.status_of(snapshot).model.to_dicts()]
    shapes = [", ".join(f"{name} {model[name]}" for name in SHAPE) for model in models]
    place = address_of(view)
    # an empty atlas has no model
    if place is None or len(models) < 2:
        return
    if shapes[0] != shapes[1]:
        st.text(f"The models differ in shape ({shapes[0]}; {shapes[1]}), so {place} is not the same place in both.")
        return
    tokens = [tokens_of(snapshot, place) for snapshot in (here, there)]
    st.text(sentence(place, *tokens))
    changed = differing_tokens(*tokens)
    moved = numbers(numbers_of(here, place), numbers_of(there, place), (name_of(here), name_of(there)))
    left, right = st.columns(2)
    if not changed.is_empty():
        left.dataframe(blocks.readable(changed), hide_index=True, height=240, alt=f"Tokens of {place} in one atlas alone")
    if moved.is_empty():
        right.text("None of its numbers differs.")
    else:
        right.dataframe(moved, hide_index=True, height=240, alt=f"Numbers of {place} that differ")


def tokens_of(snapshot: Snapshot, place: Neuron | Head) -> pl.DataFrame:
    """Read the tokens that a neuron's value promotes and suppresses, or those at the ends of what a head reads and writes.

    The columns are direction, token, rank and score.
    """
    asked = tuple(place._asdict().items())
    if isinstance(place, Neuron):
        return data.rows(snapshot, "value_tokens", asked)
    # which of its ends is the top one is chance
    found = data.rows(snapshot, "head_tokens", asked)
    ends = [
        found.select(
            pl.col("side").alias("direction"), pl.col(end).alias("token"), pl.col("direction_rank").alias("rank"), pl.col(f"{end}_scores").alias("score")
        )
        for end in ("top", "bottom")
    ]
    return pl.concat(ends).explode("token", "score").drop_nulls("token").unique(["direction", "token"], keep="first", maintain_order=True)


def numbers_of(snapshot: Snapshot, place: Neuron | Head) -> pl.DataFrame:
    """Read one row with everything measured of a component; for a head, also where it looks."""
    asked = tuple(place._asdict().items())
    if isinstance(place, Neuron):
        return data.rows(snapshot, "neuron_card", asked)
    card = data.rows(snapshot, "head_card", asked)
    looks = {
        f"{row['behaviour']}, {where}": row[column]
        for row in data.rows(snapshot, "head_behaviours", asked).iter_rows(named=True)
        for column, where in (("probe", "on repeats"), ("text", "on text"))
    }
    return pl.concat([card, pl.DataFrame([looks], schema=dict.fromkeys(looks, pl.Float64))] if looks else [card], how="horizontal")


def address_of(view: Link) -> Neuron | Head | None:
    asked = dict(view.query).get("at")
    try:
        return parse_address(asked) if asked else None
    except AtlasError:
        return None


def differing_tokens(here: pl.DataFrame, there: pl.DataFrame) -> pl.DataFrame:
    """Select the rows of `tokens_of` that only one of the two atlases has, by direction, with their rank and score there."""
    columns = ["direction", "token", "rank", "score"]
    only = [
        one.join(other, on=["direction", "token"], how="anti").select(
            *columns[:2], pl.col("rank").cast(pl.Int64, strict=False), pl.col("score").cast(pl.Float64, strict=False), pl.lit(where).alias("only in")
        )
        for one, other, where in ((here, there, "the first"), (there, here, "the second"))
    ]
    return pl.concat(only).sort("direction", "rank", "only in").select("direction", "only in", *columns[1:])


def sentence(place: Neuron | Head, here: pl.DataFrame, there: pl.DataFrame) -> str:
    """Describe in a sentence how far both atlases agree on a component's tokens."""
    both = here.join(there, on=["direction", "token"], how="semi")
    tops = [next(iter(frame.filter((pl.col("direction") == "promoted") & (pl.col("rank") == 1))["token"]), None) for frame in (here, there)]
    top = f"; both promote {visible_text(tops[0])} most" if tops[0] and tops[0] == tops[1] else ""
    if len(both) == len(here) == len(there):
        return f"{place} has the same {len(here)} tokens in both{top}."
    return f"Of the top and bottom tokens of {place}, {len(both)} of {max(len(here), len(there))} are the same{top}. Tokens of one atlas only:"


def numbers(here: pl.DataFrame, there: pl.DataFrame, names: tuple[str, str]) -> pl.DataFrame:
    """List the numbers of `numbers_of` that differ, side by side, the largest relative change first."""
    rows = []
    for column in (c for c in here.columns if here.schema[c].is_numeric() and c in there.columns):
        pair = [frame[column][0] if frame.height else None for frame in (here, there)]
        rows.append({"number": column, "first": pair[0], "second": pair[1], "change": change(*pair)})
    shown = pl.DataFrame(rows, schema={"number": pl.String, "first": pl.Float64, "second": pl.Float64, "change": pl.Float64}, strict=False)
    one, other = names if names[0] != names[1] else (f"{names[0]} (first)", f"{names[1]} (second)")
    return (
        shown.filter(pl.col("first").ne_missing(pl.col("second")))
        .sort(pl.col("change").abs(), descending=True, nulls_last=True)
        .rename({"first": one, "second": other})
    )


def change(here: float | None, there: float | None) -> float | None:
    """Compute the change from here to there, relative to the larger of both; None if either is missing."""
    if here is None or there is None:
        return None
    size = max(abs(here), abs(there))
    return (there - here) / size if size else 0.0
