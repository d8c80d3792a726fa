"""The panels of a prediction, the answer first; of two sources, a prompt as it is and switched, side by side."""

from collections.abc import Iterator, Sequence
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui import blocks, data
from ui.prediction import charts, hrefs, lens, looking, opened, passage, who
from ui.prediction.source import Source
from ui.prediction.who import Switches
from ui.tray import drawn

SIDES = ("As it is", "Switched")


def show(sources: Sequence[Source], switches: Switches) -> None:
    """Show the panels of a prediction. sources: one, or a prompt as it is and switched."""
    base, view = sources[0], sources[0].view
    traces = [source.ask_at_position("prediction_trace") for source in sources]
    n_layers = 1 + int(traces[0].frame["layer"].max())  # type: ignore[arg-type]
    if not base.is_live:
        passage.context(base, traces[0].frame.row(-1, named=True))
    if view.head is not None:
        blocks.draw_part(looking.panel, base, view.head)
    if view.layer is not None:
        st.header(f"What does layer {view.layer} do here?")
        st.html(opened.neighbour_links(view, n_layers))
        for source, trace in lay_out_sources(sources, traces):
            blocks.draw_part(opened.panel, source, view.layer, trace.frame, switches)
    st.header("Who made it?")
    for source, _ in lay_out_sources(sources, traces):
        blocks.draw_part(who.panel, source, switches)
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
    """Yield each source and its trace in a column of its own, which says what it is where there are two."""
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
    source.show_html(grid_html, trace, "grid", drawn=partial(drawn.grid, trace.frame, events.frame))
    if not events.frame.is_empty():
        source.show_html(lens.events(events.frame.iter_rows(named=True), href), events, "events")
