"""A reader's own prompt as the source of a prediction: the same panels for the model as it is and with switches, side by side, and what switching changes."""

import shlex
from dataclasses import replace
from typing import Any

import polars as pl
import streamlit as st

from atlas.address import Head, Neuron, parse_address
from atlas.arguments import bind
from atlas.live.session import POSITIONS
from atlas.questions import question
from atlas.statement import statement
from schema.errors import AtlasError
from ui import blocks, charts, data, frame
from ui.prediction import address, hrefs, lens, panels, traces, waterfall
from ui.prediction.address import View
from ui.prediction.source import Source
from ui.prediction.traces import Key, Run
from ui.tray import figures

N_TOKENS = 10


def panel(run: Run) -> None:
    st.header("What does switching change?")
    compared = run.read_rows("compare").filter(arm_id=1)
    here = compared.row(by_predicate=pl.col("index") == run.index, named=True)
    st.text(sentence(here))
    st.html(tabulate_next_tokens(run.read_rows("leading_tokens", run.index, N_TOKENS)))
    tokens = [{**row, "is_asked": row["index"] == run.index} for row in compared.iter_rows(named=True)]
    st.text("KL divergence from the unswitched distribution after each token, in nats:")
    st.html(lens.shade_tokens(tokens, "kl_from_base", max(1.0, *(t["kl_from_base"] for t in tokens)), lambda kl: f"{kl:.2f}"))


def sentence(here: dict[str, Any]) -> str:
    """Describe how the prediction at a token changes, from a row of the trace's comparison."""
    if here["is_as_base"]:
        return "Nothing: every state is the same, to the bit, as without the switches."
    return (
        f"The log-probability of the prediction changes by {waterfall.format_signed(here['answer_logprob_change'])} nats, "
        f"and its rank is {here['answer_rank']:,}; "
        f"the distribution moves by {here['kl_from_base']:.4g} nats (KL)."
    )


def tabulate_next_tokens(tokens: pl.DataFrame) -> str:
    """Tabulate the most likely next tokens without and with the switches, side by side."""
    base, arm = (tokens.filter(arm_id=k).sort("rank").to_dicts() for k in (0, 1))
    rows = [[str(one["rank"]), *cells(one), *cells(other)] for one, other in zip(base, arm, strict=True)]
    return lens.table(["Rank", "As it is", "Probability", "Switched", "Probability"], rows)


def cells(row: dict[str, Any]) -> list[str]:
    return [lens.token(row["token"], hrefs.of_token(row["token"])), f"{row['prob']:.4f}"]


NOT_RUN = "This prompt has not been run: read it, then press Run. A link only writes it here. Once it has run, the links here switch and run at once."

READING = "How surprising each token of the prompt was."

INSTALL = "pip install 'activation-atlas[ingest]'"

STRONGER = {Neuron: ("max", "=max*1"), Head: ("×2", "*=2")}
"""Kind of component → label of the link that makes it stronger, and the form of that switch."""


def show(view: View) -> None:
    frame.title("Prediction of a prompt")
    run = find_or_run(view)
    if run is None:
        return
    base, *arms = [source(view, run, arm) for arm in range(2 if view.off else 1)]
    st.text("Each token is a link to what is predicted after it; the number after a token is the probability of that prediction.")
    st.html(prompt(view, run))
    st.html(list_switches(view))
    if arms:
        blocks.draw_part(panel, run)
    panels.show([base, *arms], lambda component: switches(view, component))


def find_or_run(view: View) -> Run | None:
    """Find the run that the address asks for, or start it; None if Run must be pressed first, the run was cancelled, or no model can be run here."""
    key = traces.key_of(view)
    if (run := traces.run_cache().get(key, data.atlas())) is not None:
        return run
    if why := traces.explain_no_model():
        blocks.explain_empty(why, INSTALL)
        return None
    if traces.may_run(key):
        watch(key)
    st.html(f'<div class="lens">{lens.piece(key.prompt, "passage", None)}</div>' + list_switches(view))
    if (fault := traces.fault_of(key)) is not None:
        blocks.failure(AtlasError(fault))
    else:
        blocks.explain_empty(NOT_RUN)
    st.button("Run", type="primary", on_click=traces.allow, args=(key.prompt,))
    return None


def watch(key: Key) -> None:
    """Run a prompt, then redraw the page; meanwhile show the progress and a Cancel button."""
    st.button("Cancel", on_click=traces.stop, args=(key,))
    bar = st.progress(0.0, "Asking the model process …")

    def progress(said: dict[str, Any]) -> None:
        # whoever has gone, or pressed Cancel, leaves here: that closes the request, which ends the work
        bar.progress(min(1.0, float(said.get("share", 0.0))), describe_progress(said))

    try:
        traces.run(key, progress)
    except AtlasError as error:
        traces.stop(key, str(error))
    st.rerun()


def describe_progress(said: dict[str, Any]) -> str:
    """Describe a progress message of the model process for readers."""
    if "waiting" in said:
        return f"Waiting in line: {said['waiting']} prompts before this one."
    return str(said.get("stage", ""))[:200].replace("\\", "").replace("[", "(").replace("$", "") or "…"


def source(view: View, run: Run, arm: int) -> Source:
    """Build the source that answers questions about the prompt under an arm; arm 0 is the model as it is."""
    position = run.trace.position_id(run.index, arm)

    def ask(name: str, **arguments: object) -> data.Answer:
        q = question(name)
        bound = bind(q, (), arguments)
        return data.Answer(q.sentence, run.read_rows("ask", name, **arguments), statement(q, bound), q.columns, name, bound)

    def take_away(answer: data.Answer, key: str, chart: charts.AnyChart | None = None, drawn: figures.Made | None = None) -> None:
        with st.container(horizontal=True, gap="small"):
            with st.popover("Python", icon=":material/code:", key=f"{key}-python"):
                st.text("These rows, where the model can be run:")
                st.code(python_of(view, run, answer), language="python", wrap_lines=True)
                st.code(command_of(view, run), language=None, wrap_lines=True)
            blocks.offer(blocks.files(answer, chart), key)
            if made := blocks.choose_drawing(chart, drawn):
                # the question alone is the same of every prompt
                figures.offer(replace(answer, sql=python_of(view, run, answer)), key, made)

    def reading() -> data.Answer:
        rows = run.read_rows("positions").filter(arm_id=arm).with_columns(is_asked=pl.col("index") == run.index)
        return data.Answer(READING, rows, f"FROM ({POSITIONS.strip()}) AS p WHERE p.arm_id = {arm} ORDER BY p.index")

    return Source(view, position, ask, take_away, reading, key=f"arm{arm}-")


def python_of(view: View, run: Run, answer: data.Answer) -> str:
    """Write the Python code that reproduces the rows of an answer."""
    arms = [[address.short_form(switch) for switch in view.off]] if view.off else []
    return f"found = a.live().trace({view.prompt!r}, {arms!r}, apart={run.index})\nfound.sql({answer.sql!r})"


def command_of(view: View, run: Run) -> str:
    """Write the command line that runs the same prompt."""
    given = " ".join(f"--set {shlex.quote(address.short_form(switch))}" for switch in view.off)
    return f"atlas trace {shlex.quote(view.prompt or '')} --db {shlex.quote(data.atlas().path.name)} --index {run.index} {given}".rstrip()


def prompt(view: View, run: Run) -> str:
    """Write the tokens of the prompt, each a link to the prediction after it, with the probability of that prediction."""
    tokens = [{**row, "is_asked": row["index"] == run.index} for row in run.read_rows("positions").filter(arm_id=0).iter_rows(named=True)]

    def href(row: lens.Row) -> str:
        # the last by its own name, so that it is one address
        return hrefs.of_view(view.with_changes(index=-1 if row["index"] == len(tokens) - 1 else row["index"], head=None))

    return lens.shade_tokens(tokens, "final_prob", 1.0, lambda prob: f"{prob:.0%}", href)


def list_switches(view: View) -> str:
    """List the switched components, each with a link that removes its switch."""
    if not view.off:
        return '<div class="lens">Nothing is switched. Links beside each neuron and head below switch it.</div>'
    each = [f"{lens.link_html(switch, hrefs.of_component(where(switch)))} {to_switch(view, where(switch), None, 'as is')}" for switch in view.off]
    return f'<div class="lens said">Switched: {" · ".join(each)} · {lens.link_html("all as they are", hrefs.of_view(view.with_changes(off=())))}</div>'


def where(switch: str) -> Neuron | Head:
    return parse_address(address.address_of(switch))


def switches(view: View, component: Neuron | Head) -> str:
    """Build links that set a neuron or head to 0, leave it as it is, or make it stronger; the present state is no link."""
    own = next((switch.upper() for switch in view.off if address.address_of(switch) == str(component)), None)
    strong, form = STRONGER[type(component)]
    states = [("0", "", own in (str(component), f"{component}=0")), ("as is", None, own is None), (strong, form, own == f"{component}{form}".upper())]
    said = [f"<b>{name}</b>" if holds else to_switch(view, component, to, name) for name, to, holds in states]
    return f'<span class="switch">{" ".join(said)}</span>'


def to_switch(view: View, component: Neuron | Head, form: str | None, name: str) -> str:
    to = hrefs.of_view(view.with_switch(str(component), form))
    return f'<a class="go" href="{to.replace("&", "&amp;")}" aria-label="{component} {name}">{name}</a>'
