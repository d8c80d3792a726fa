"""Parts of the SQL page: a question as a form, the editor, and the result of a statement."""

import re
from typing import Any

import polars as pl
import streamlit as st

from atlas.answers import explain_empty_statement
from atlas.arguments import bind
from atlas.questions import Parameter, Question, question, questions
from atlas.statement import statement
from schema.errors import AtlasError
from ui import address_widgets, blocks, charts, data, number_format
from ui.running import LIMITS, MAX_ROWS, result

PAGE, KEPT = 100, 20
"""Rows of a page, and maximum number of statements remembered."""

FIRST = "FROM layer_summary()"
"""Statement that the page shows at first."""

NOT_RUN = "This statement has not been run: read it, then press Run. A link only writes a statement here, and never runs it."


def editor() -> str:
    """Show the statement as it was last sent, from a link or by hand, and return it. It is marked to run only if Run was pressed."""
    st.text(LIMITS)
    with st.form("statement", border=False):
        sql = st.text_area("Statement", FIRST, height=200, key="sql", bind="query-params")
        if st.form_submit_button("Run"):
            st.session_state["run"] = sql
    return sql


def run_in_editor(sql: str) -> None:
    """Put a statement into the editor, and run it. Buttons do this; an address never does."""
    st.session_state.update(sql=sql, run=sql)


def question_form() -> None:
    """Show a form to choose a question and fill in its parameters, which writes the question's statement into the editor."""
    name = st.selectbox("Question", list(questions()), index=None, placeholder="Choose one to fill in", key="question")
    if name is None:
        return
    q = question(name)
    st.text(f"{q.sentence}\n{q.source}")
    fault = st.session_state.pop("form_fault", None)
    if fault:
        blocks.failure(AtlasError(fault))
    with st.form(f"form-{name}", border=False):
        for p in q.parameters:
            field(q, p)
        st.form_submit_button("Write the statement", on_click=write, args=(q,))


def write(q: Question) -> None:
    """Write the form's statement into the editor and run it; show an error at the form if its arguments are invalid."""
    given = {p.name: value(p, st.session_state[f"{q.name}-{p.name}"]) for p in q.parameters}
    try:
        run_in_editor(statement(q, bind(q, (), {name: v for name, v in given.items() if v is not None})))
    except AtlasError as error:
        st.session_state["form_fault"] = str(error)


def field(q: Question, p: Parameter) -> None:
    """Show the widget of a parameter, empty if the parameter has no default."""
    key = f"{q.name}-{p.name}"
    default: Any = p.default_value
    if p.type in ("integer", "bigint"):
        st.number_input(p.name, value=default, step=1, help=p.meaning, key=key)
    elif p.type == "double":
        st.number_input(p.name, value=default, help=p.meaning, key=key)
    else:
        st.text_input(p.name, value=default or "", help=p.meaning, key=key)


def value(p: Parameter, typed: Any) -> Any:
    """Convert the typed value to the parameter's type; None if the field was left empty."""
    if p.type == "bigint[]":
        return [int(part) for part in re.findall(r"\d+", typed)] or None
    return None if typed == "" else typed


def dictionary() -> None:
    """Show the tables and views with their columns."""
    columns = data.dictionary()
    relation = st.selectbox("Table or view", columns["relation"].unique(maintain_order=True).to_list(), key="relation")
    st.dataframe(columns.filter(pl.col("relation") == relation).drop("relation"), hide_index=True, alt=f"Columns of {relation}", height=360)


def remember(sql: str) -> None:
    history = st.session_state.setdefault("history", [])
    if sql in history:
        history.remove(sql)
    st.session_state["history"] = [sql, *history][:KEPT]


def recall() -> None:
    """List the statements of this visit, the latest first."""
    for i, sql in enumerate(st.session_state.get("history", [])):
        with st.container(horizontal=True):
            st.button("Again", key=f"again-{i}", on_click=run_in_editor, args=(sql,))
            st.code(sql, language="sql")


def show(sql: str) -> None:
    """Show a statement's rows, page by page, with a chart; or the reason why there are none."""
    if sql not in (FIRST, st.session_state.get("run")):
        blocks.explain_empty(NOT_RUN)
        return
    try:
        frame, is_truncated = result(data.current_snapshot(), sql)
    except AtlasError as error:
        blocks.failure(error)
        return
    remember(sql)
    st.text(f"{number_format.format_count(frame.height, 'row')}{f'; there are more, and only the first {MAX_ROWS:,} are shown' if is_truncated else ''}")
    if frame.is_empty():
        a = data.atlas()
        if why := explain_empty_statement(a.con, a.path, sql):
            st.text(f"The reason: {why}")
        return
    n_pages = -(-frame.height // PAGE)
    page = st.pagination(n_pages, key="page") if n_pages > 1 else 1
    answer = data.Answer(title_of(sql), frame, sql)
    blocks.table(answer, "result", rows=slice((page - 1) * PAGE, page * PAGE))
    if address_widgets.ask_toggle("Chart", "chart", False):
        draw(answer, hint(sql))


CALL = re.compile(r"\s*FROM\s+(?:\w+\.)?(\w+)\s*\(", re.IGNORECASE)
"""Pattern of a statement that asks a question."""

LONGEST_TITLE = 120


def title_of(sql: str) -> str:
    """Write a caption for the rows: the question's sentence if the statement asks one, else the statement, cut to LONGEST_TITLE characters."""
    call = CALL.match(sql)
    if call and call[1] in questions():
        return questions()[call[1]].sentence
    words = " ".join(sql.split())
    return f"Rows of {words if len(words) <= LONGEST_TITLE else f'{words[:LONGEST_TITLE]}…'}"


def hint(sql: str) -> tuple[str, list[str]]:
    """Find the chart that a question's header proposes, as (kind, columns); a bar chart for other statements."""
    call = CALL.match(sql)
    found = re.match(r"(\w+)\((.+)\)", questions()[call[1]].chart) if call and call[1] in questions() else None
    return (found[1], [part.strip() for part in found[2].split(",")]) if found else ("bar", [])


def draw(answer: data.Answer, proposed: tuple[str, list[str]]) -> None:
    """Draw a chart of two columns, which the reader may change."""
    kind, columns = proposed
    names = answer.frame.columns
    x, y = [*(c for c in columns if c in names), *(c for c in names if c not in columns), names[-1]][:2]
    with st.container(horizontal=True):
        kind = address_widgets.ask_option("Kind", "kind", charts.KINDS, kind if kind in charts.KINDS else charts.KINDS[0])
        x, y = (address_widgets.ask_option(label, key, names, column, changes=True) for label, key, column in (("Across", "x", x), ("Up", "y", y)))
        words = [c for c in names if answer.frame.schema[c] == pl.String and c != x]
        colour = address_widgets.ask_option("Colour", "colour", words, words[0], changes=True) if words else None
    blocks.figure(charts.two_columns(answer.frame, kind, x, y, colour), answer, "result-chart")
