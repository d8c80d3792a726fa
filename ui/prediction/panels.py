"""Panels of a prediction, the answer first. Two sources, a prompt as it is and switched, are shown side by side."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from atlas.address import Head
from ui import blocks, data
from ui.prediction import charts, contributors, hrefs, layer_detail, lens, passage, waterfall
from ui.prediction.contributors import Switches
from ui.prediction.source import Source, lacks
from ui.tray import drawings

LEAST_WIDTH, MOST_WIDTH = 48, 1024
"""Fewest and most tokens of the text shown on each side."""

SIDES = ("As it is", "Switched")


def show(sources: Sequence[Source], switches: Switches) -> None:
    """Show the panels of a prediction. sources: one; or two to compare, the prompt run unchanged and the same prompt run with components switched."""
    base, view = sources[0], sources[0].view
    traces = [source.ask_at_position("prediction_trace") for source in sources]
    n_layers = 1 + int(traces[0].frame["layer"].max())  # type: ignore[arg-type]
    if not base.is_live:
        passage.context(base, traces[0].frame.row(-1, named=True))
    if view.head is not None:
        blocks.draw_part(head_panel, base, view.head)
    if view.layer is not None:
        st.header(f"What does layer {view.layer} do here?")
        st.html(layer_detail.neighbour_links(view, n_layers))
        for source, trace in lay_out_sources(sources, traces):
            blocks.draw_part(layer_detail.panel, source, view.layer, trace.frame, switches)
    st.header("Who made it?")
    for source, _ in lay_out_sources(sources, traces):
        blocks.draw_part(contributors.panel, source, switches)
    st.header("Which token leads at every site?")
    for source, trace in lay_out_sources(sources, traces):
        grid(source, trace)
    st.header("How surprising was each token?")
    for source, _ in lay_out_sources(sources, traces):
        passage.surprisal(source)
    blocks.draw_part(passage.show_similar_states, base, n_layers - 1 if view.layer is None else view.layer)
    passage.show_neighbours(base)
    st.header("How do the final and the next token rise?")
    for source, trace in lay_out_sources(sources, traces):
        source.figure(charts.ranks(trace.frame), trace, "ranks")


def lay_out_sources(sources: Sequence[Source], traces: Sequence[data.Answer]) -> Iterator[tuple[Source, data.Answer]]:
    """Yield each source and its trace in a column of its own, under a heading if there are two."""
    columns: Sequence[DeltaGenerator] = st.columns(len(sources)) if len(sources) > 1 else [st.container()]
    for source, trace, column, side in zip(sources, traces, columns, SIDES, strict=False):
        with column:
            if len(sources) > 1:
                st.subheader(side)
            yield source, trace


def grid(source: Source, trace: data.Answer) -> None:
    """Show the leading token at every site, and the events."""
    events = source.ask_at_position("position_events")
    st.text(lens.sentence(events.frame.iter_rows(named=True), trace.frame.iter_rows(named=True)))
    signs = lens.marks(events.frame.iter_rows(named=True))

    def href(layer: int) -> str:
        return hrefs.of_view(source.view.with_changes(layer=layer))

    grid_html = lens.grid(trace.frame.iter_rows(named=True), signs, href, source.view.layer)
    source.show_html(grid_html, trace, "grid", drawn=partial(drawings.grid, trace.frame, events.frame))
    if not events.frame.is_empty():
        source.show_html(lens.events(events.frame.iter_rows(named=True), href), events, "events")


def head_panel(source: Source, head: Head) -> None:
    st.header(f"Where does {head} look from here?")
    links = [lens.link_html("Close it", hrefs.of_view(source.view.with_changes(head=None))), lens.link_html(f"{head} itself", hrefs.of_component(head))]
    st.html(f'<div class="lens"><span class="go">{" · ".join(links)}</span></div>')
    found = source.ask_at_position("attention_sources", layer=head.layer, head=head.head)
    if found.frame.is_empty():
        if source.is_live:
            st.text("Where heads look is not stored for a switched run, or for a prompt that was not taken apart.")
        else:
            lacks("Rows of attention are not in this atlas.", "attribution")
        return
    listed = found.frame.drop_nulls("source_index")
    st.text(describe_head(found.frame, str(head)))
    st.html(lens.shade_tokens(tokens_with_shares(source, listed), "moved_share", 1.0, lambda share: f"{share:.0%}", lambda row: to_position(source, row)))
    heads = ["Token", "Back", "Weight", "Moves", "Share", "Adds to the prediction"]
    source.show_html(lens.table(heads, (source_cells(row) for row in found.frame.iter_rows(named=True))), found, f"sources-{head}")


def describe_head(rows: pl.DataFrame, head: str) -> str:
    """Describe how much a head adds to the prediction, and from which token it moves most."""
    first, total = rows.row(0, named=True), rows["final_logit"].sum()
    back = "the position itself" if first["distance"] == 0 else f"{first['distance']} back"
    return (
        f"{head} adds {waterfall.format_signed(float(total))} logits to the prediction. Most of what it moves comes from {back}: {first['moved_share']:.0%}, "
        f"at a weight of {first['weight']:.2f}. The text shows each source's share of what is moved."
    )


def tokens_with_shares(source: Source, listed: pl.DataFrame) -> list[dict[str, Any]]:
    """Read the text up to the position, with the share of each source that is listed."""
    furthest = int(listed["distance"].max() or 0)  # type: ignore[arg-type]
    around = source.ask("position_tokens", at_position=source.position, width=min(MOST_WIDTH, max(LEAST_WIDTH, furthest)))
    shares = dict(listed.select("source_index", "moved_share").iter_rows())
    rows = around.frame.filter(pl.col("position_id") <= source.position).iter_rows(named=True)
    return [{**row, "moved_share": shares.get(row["index"])} for row in rows]


def to_position(source: Source, row: lens.Row) -> str | None:
    """Find the address that a token leads to; None if it leads nowhere.

    A traced position leads to its own prediction, a token of a live prompt to the prediction after it.
    """
    if source.is_live:
        return hrefs.of_view(source.view.with_changes(index=row["index"]))
    return hrefs.of_position(row["position_id"]) if row["is_traced"] and not row["is_asked"] else None


def source_cells(row: dict[str, Any]) -> list[str]:
    name = "all others" if row["source_index"] is None else lens.token(row["token"], hrefs.of_token(row["token"]))
    back = "" if row["distance"] is None else str(row["distance"])
    return [name, back, f"{row['weight']:.3f}", waterfall.number(row["moved"]), f"{row['moved_share']:.1%}", waterfall.format_signed(row["final_logit"])]
