"""Building blocks of every page: tables whose rows link to what they list, figures, and ways to export each."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Literal, ParamSpec

import polars as pl
import streamlit as st

from atlas.export.cells import display_cells
from atlas.export.formats import Style, render
from atlas.export.latex import tex
from atlas.export.rendering import FIGURE_FORMATS, figure_svg, render_figure
from atlas.export.visible import visible_text
from atlas.left_out import describe_left_out
from atlas.notes import notes
from atlas.questions import question
from atlas.typed.nulls import without_value
from schema.errors import AtlasError
from ui import charts, data, links, listing, number_format
from ui.data import Answer, source
from ui.tray import collecting, figures

TABLE_FORMATS = {"CSV": ("csv", "csv"), "Parquet": ("parquet", "parquet"), "LaTeX": ("latex", "tex")}
"""Button → format of atlas/export/formats.py and file suffix."""

LONGEST_CELL = 2048
"""Maximum characters of a cell."""

NOTHING = "Nothing of the kind is in this atlas."

STUMBLES = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, pl.exceptions.PolarsError)
"""Errors that follow from a missing value where an ingest always writes one."""


P = ParamSpec("P")


def make_fragment(draw: Callable[P, None]) -> Callable[P, None]:
    """Turn a drawing function into a part of a page that is redrawn alone when a widget in it changes, and that shows its errors in its own place."""

    @st.fragment
    @wraps(draw)
    def draw_fragment(*args: P.args, **kwargs: P.kwargs) -> None:
        draw_part(draw, *args, **kwargs)

    return draw_fragment


def draw_part(draw: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Draw a part of a page, or show its error in its place."""
    with show_errors():
        draw(*args, **kwargs)


@contextmanager
def show_errors() -> Iterator[None]:
    """Show an AtlasError in place of the part that it stops.

    An error of STUMBLES is reported as a fault of the file if rows lack a value that an ingest always writes; otherwise it is a fault of the page, and raised.
    """
    try:
        yield
    except AtlasError as error:
        failure(error)
    except STUMBLES:
        try:
            columns = without_value(data.atlas().con)
        except AtlasError as error:
            failure(error)
            return
        if not columns:
            raise
        failure(AtlasError(f"{data.file_name()} is not as an ingest makes it: there are rows without a value in {', '.join(columns[:5])}"))


def table(
    answer: Answer,
    key: str,
    *,
    columns: list[str] | None = None,
    rows: slice | list[int] = slice(None),
    height: int | Literal["auto"] = "auto",
    note: str = NOTHING,
    drawn: figures.Made | None = None,
) -> None:
    """Show rows, each a link to its neuron, head or position, and beneath them ways to export all of them.

    `columns`, `rows`: show only these; `drawn`: as in take_away.
    """
    if answer.frame.is_empty():
        explain_empty(note)
        return
    here = answer.frame[rows]
    grid(here.select(columns or pl.all()), here, key, answer.title, answer.columns, height)
    take_away(answer, key, drawn=drawn)


def grid(shown: pl.DataFrame, rows: pl.DataFrame, key: str, title: str, columns: Mapping[str, str], height: int | Literal["auto"] = "auto") -> None:
    """Show the rows of `shown`, each a link where its row of `rows` names a neuron, head or position. `columns`: column shown → what it holds."""
    leads = [links.of_named_row(row) for row in rows.head(listing.MOST).iter_rows(named=True)]
    if any(leads):
        st.html(listing.table(readable(shown.head(listing.MOST)), leads, title, columns, None if height == "auto" else height))
        if rows.height > listing.MOST:
            st.text(f"The first {listing.MOST:,} of {rows.height:,} rows; files have all.")
        return
    formats = number_format.formats(shown)
    st.dataframe(
        readable(shown),
        key=key,
        height=height,
        hide_index=True,
        lazy=False,
        column_config={
            c: st.column_config.NumberColumn(format=formats[c], help=columns.get(c)) if c in formats else st.column_config.Column(help=columns.get(c))
            for c in shown.columns
        },
        alt=title,
    )


def readable(frame: pl.DataFrame) -> pl.DataFrame:
    """Make every character of texts and lists visible and round lists of numbers; single numbers stay as they are, so that they sort as numbers."""
    text = [c for c in frame.columns if frame.schema[c] == pl.String]
    lists = [c for c in frame.columns if frame.schema[c] == pl.List(pl.String)]
    return frame.with_columns(
        *(pl.Series(c, [None if v is None else cell(v) for v in frame[c]], dtype=pl.String) for c in text),
        *(
            pl.Series(c, [None if v is None else cut_cell(" · ".join(cell(t) for t in v[:LONGEST_CELL] if t is not None)) for v in frame[c]], dtype=pl.String)
            for c in lists
        ),
        *(pl.Series(c, number_format.format_lists(frame[c]), dtype=pl.String) for c in frame.columns if is_numbers(frame.schema[c])),
    )


def is_numbers(kind: pl.DataType) -> bool:
    """Tell whether a column holds lists or vectors of numbers."""
    return isinstance(kind, pl.List | pl.Array) and kind.inner.is_numeric()


def cell(text: str) -> str:
    """Make every character of a text visible, as far as a cell shows the text."""
    return cut_cell(visible_text(text[: LONGEST_CELL + 1]))


def cut_cell(text: str) -> str:
    """Cut the text of a cell to a length that a browser can bear; files hold the whole text."""
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"


def figure(chart: charts.AnyChart, answer: Answer, key: str) -> None:
    """Show a chart with its title, and beneath it ways to export the chart and its rows."""
    if answer.frame.is_empty():
        explain_empty(NOTHING)
        return
    st.altair_chart(charts.apply_screen_style(chart), key=key, width="stretch", alt=answer.title)
    take_away(answer, key, chart)


Files = Mapping[str, tuple[str, Callable[[], bytes]]]
"""Button → name and content of its file."""


def take_away(answer: Answer, key: str, chart: charts.AnyChart | None = None, drawn: figures.Made | None = None) -> None:
    """Show notes on the rows, their SQL, and buttons that download them or add them to a collection or the figure tray. `drawn`: the view as a drawing."""
    if answer.question:
        q = question(answer.question)
        for note in filter(None, [*notes(q, answer.frame, answer.arguments), describe_left_out(data.atlas().con, q.catalog)]):
            st.text(f"Note: {note}")
    with st.container(horizontal=True, gap="small"):
        show_sql(answer.sql, key)
        offer(files(answer, chart), key, "All rows, of every page:" if answer.whole else "")
        collecting.offer(answer.frame, key)
        if made := choose_drawing(chart, drawn):
            figures.offer(answer, key, made)


def choose_drawing(chart: charts.AnyChart | None, drawn: figures.Made | None) -> figures.Made | None:
    """Choose the function that draws a view for the figure tray: its own drawing, else its chart; None if it has neither."""
    return drawn or (partial(render_chart, charts.apply_print_style(chart)) if chart is not None else None)


def render_chart(printed: charts.AnyChart) -> tuple[str, str]:
    """Render a chart for the figure tray as SVG, without LaTeX of its own."""
    return figure_svg(printed), ""


def show_sql(sql: str, key: str) -> None:
    """Show the SQL, and a link to the page where it can be changed."""
    with st.popover("SQL", icon=":material/code:", key=f"{key}-sql"):
        st.text("These rows, in any DuckDB that has this atlas open:")
        st.code(sql, language="sql", wrap_lines=True)
        st.html(links.anchor(links.query(sql), "Open in the SQL page"))


def files(answer: Answer, chart: charts.AnyChart | None) -> Files:
    """List the files of an answer: its rows and its chart in every format, and its provenance."""
    tables = {label: (f"{answer.name}.{suffix}", partial(table_bytes, answer, format)) for label, (format, suffix) in TABLE_FORMATS.items()}
    figures = figure_files(answer.name, charts.apply_print_style(chart)) if chart is not None else {}
    return {**tables, **figures, "Provenance": (f"{answer.name}.provenance.json", partial(provenance_bytes, answer))}


def figure_files(name: str, printed: charts.AnyChart) -> Files:
    """List files of a chart, one for every format."""
    return {format.upper(): (f"{name}.{format}", partial(render_figure, printed, format)) for format in FIGURE_FORMATS}


def offer(files: Files, key: str, note: str = "") -> None:
    """Offer a download button for each file, which is made when it is requested."""
    with st.popover("Download", icon=":material/download:", key=f"{key}-download"):
        if note:
            st.text(note)
        for label, (name, content) in files.items():
            st.download_button(label, content, file_name=name, key=f"{key}-{name}", on_click="ignore")


def table_bytes(answer: Answer, format: str) -> bytes:
    return render(answer.full_answer.frame, format, Style(source(answer.full_answer), caption=tex(answer.caption), label=f"tab:{answer.name}"))


def provenance_bytes(answer: Answer) -> bytes:
    return json.dumps(source(answer.full_answer), ensure_ascii=False, indent=2).encode()


def explain_empty(what: str, command: str | None = None) -> None:
    """Explain why nothing is shown, and show the command to run, if any; NAME.duckdb in the command stands for the atlas."""
    with st.container(border=True):
        st.text(what)
        if command:
            # without colours: those of the highlighter are too pale to read
            st.code(data.of_this_atlas(command), language=None, wrap_lines=True)


def card(answer: Answer, key: str) -> None:
    """Show a few rows of many columns transposed: one line per column, with the meaning of the column."""
    frame = answer.frame
    rows = {"": frame.columns, **{str(i): display_row(frame, i) for i in range(frame.height)}, "meaning": [answer.columns.get(c, "") for c in frame.columns]}
    st.dataframe(pl.DataFrame(rows).rename({"0": "value"} if frame.height == 1 else {}), key=key, hide_index=True, alt=answer.title)
    take_away(answer, key)


def display_row(frame: pl.DataFrame, i: int) -> list[str]:
    return [display_cells(frame[c])[i] for c in frame.columns]


def facts(values: Mapping[str, str]) -> None:
    """Show short facts side by side: name → value with its unit."""
    with st.container(horizontal=True):
        for name, value in values.items():
            st.metric(name, value)


def failure(error: Exception) -> None:
    """Show the message of an error as code, because it may have characters that Markdown would interpret."""
    st.error("This cannot be shown.")
    st.code(str(error), language=None, wrap_lines=True)
