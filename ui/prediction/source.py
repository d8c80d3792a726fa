"""Source of a prediction: asks its questions and exports its rows, in the same way for a corpus and for a live prompt."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from schema.table_facts import command
from ui import blocks, charts, data
from ui.prediction.address import View
from ui.tray import figures


@dataclass(frozen=True)
class Source:
    """A view and its position, with the functions that answer for them.

    position: a position_id, below 0 for a live prompt. ask, take_away: as data.ask and blocks.take_away. reading: gives rows of the passage with columns token,
    is_asked and surprisal. key: prefix of the keys of widgets.
    """

    view: View
    position: int
    ask: Callable[..., data.Answer]
    take_away: Callable[..., None]
    reading: Callable[[], data.Answer]
    key: str = ""

    @property
    def is_live(self) -> bool:
        return self.view.prompt is not None

    def ask_at_position(self, name: str, **arguments: object) -> data.Answer:
        """Ask a question about this position."""
        return self.ask(name, position_id=self.position, **arguments)

    def figure(self, chart: charts.AnyChart, answer: data.Answer, key: str) -> None:
        st.altair_chart(charts.apply_screen_style(chart), key=f"{self.key}{key}", width="stretch", alt=answer.title)
        self.take_away(answer, f"{self.key}{key}", chart)

    def show_html(self, html: str, answer: data.Answer, key: str, chart: charts.AnyChart | None = None, drawn: figures.Made | None = None) -> None:
        """Show HTML, and beneath it ways to export its rows, with a chart of them for files if there is one. `drawn`: what is shown, as a drawing."""
        st.html(html)
        self.take_away(answer, f"{self.key}{key}", chart, drawn)


def of_corpus(view: View, position: int) -> Source:
    return Source(view, position, data.ask, blocks.take_away, partial(data.ask, "reading", at_position=position))


def lacks(what: str, run: str) -> None:
    """Show that a pass is not in the atlas, and the command that runs it."""
    blocks.explain_empty(what, command(run, "NAME.duckdb"))
