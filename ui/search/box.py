"""What the one box finds, in groups: the component, the position, who writes a token, whom it triggers, whom it follows, and whose texts have the words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import polars as pl
import streamlit as st

from atlas.address import Head, Neuron
from atlas.export.visible import visible
from atlas.questions import question
from atlas.ranges import missing_run
from schema.errors import AtlasError
from ui import blocks, data, links, previews
from ui.search.parsing import Asked, parse
from ui.search.ways import NO_SWEEP
from ui.tray import collecting

SHOWN, LOOKED = 8, 60
"""Neurons of a group, and rows that these are taken from: a neuron may have one for each tail."""


@dataclass(frozen=True)
class Group:
    """A heading, the question that fills it, the way of search that has all of it, and what is said of a row."""

    heading: str
    question: str
    way: str
    why: str


GROUPS = (
    Group("Written by: values that promote it", "neurons_promoting", "promoted token", "rank {rank}, {score:+.2f}"),
    Group("Triggered by it: keys whose triggers end in it", "neurons_triggered_by", "trigger", "{n_triggers} of {n_kept}, {tail}"),
    Group("Followed by it: keys whose triggers it follows", "neurons_triggered_before", "token after", "{n_triggers} of {n_kept}, {tail}"),
    Group("In the texts: keys whose triggers' texts have it", "neurons_with_words", "words", "{n_triggers} of {n_kept}, {tail}"),
)

Found = dict[Neuron, str]
"""Neuron → why it is found, in the order of the question."""


def answer(typed: str) -> None:
    """All that the words may mean."""
    asked = parse(typed)
    if asked.component:
        component(asked.component)
    if asked.position is not None:
        position(asked.position)
    if not asked.component:
        words(asked)


def component(where: Neuron | Head) -> None:
    """A link to it; of a neuron at a glance. What does not exist is said."""
    model = data.model()
    n = model["n_heads"] if isinstance(where, Head) else model["d_ffn"]
    st.header("Address", anchor=False)
    if where[0] >= model["n_layers"] or where[1] >= n:
        units = "heads" if isinstance(where, Head) else "neurons"
        blocks.empty(f"There is no {where}: this model has layers 0 to {model['n_layers'] - 1}, each with {units} 0 to {n - 1}.")
    elif isinstance(where, Head):
        st.html(links.anchor(links.component(where), f"Attention head {where}"))
    else:
        show({where: ""}, "Address", glances([where]))


def position(number: int) -> None:
    """A link to it if it is traced; else the nearest that are."""
    st.header("Position", anchor=False)
    try:
        last = data.ask("prediction_trace", position_id=number).frame.row(-1, named=True)
    except AtlasError as error:
        blocks.empty(str(error))
        return
    said = f"the model predicts <bdi>{escape(visible(last['final_token']))}</bdi> there"
    st.html(f"{links.anchor(links.prediction(number), f'Position {number}')}: {said}")


def words(asked: Asked) -> None:
    """The groups, each as soon as it is found; of an empty one, which of the others have the words."""
    known = [group for group in GROUPS if not missing_run(data.atlas().con, question(group.question).sql)]
    if len(known) < len(GROUPS):
        blocks.empty(*NO_SWEEP)
    faults, places, found = st.container(), {group: st.container() for group in known}, dict[Group, Found | AtlasError]()
    for group, place in places.items():
        found[group] = looked_up(group, asked.text)
        with place:
            filled(group, found[group], asked.text)
    with faults:
        for fault in sorted({str(f) for f in found.values() if isinstance(f, AtlasError)}):
            blocks.empty(f"As a token: {fault}" if "no token" in fault else fault)
    others = [group.heading.partition(":")[0].lower() for group, f in found.items() if f and not isinstance(f, AtlasError)]
    for group, place in places.items():
        if found[group] == {}:
            place.header(group.heading, anchor=False)
            place.text(f"None. It is found under: {', '.join(others)}." if others else "None, and under no other heading either.")


def filled(group: Group, found: Found | AtlasError, text: str) -> None:
    """A group that has neurons: the first of them, and a link to all."""
    if isinstance(found, AtlasError) or not found:
        return
    st.header(group.heading, anchor=False)
    shown = dict(list(found.items())[:SHOWN])
    show(shown, group.heading, glances(list(shown)))
    collecting.offer(pl.DataFrame(list(shown), schema=["layer", "neuron"], orient="row"), group.question)
    st.html(links.anchor(links.link(links.SEARCH, by=group.way, term=text), "All of them, and by tail and corpus"))


def looked_up(group: Group, text: str) -> Found | AtlasError:
    """The neurons of a group, or why there can be none."""
    term = "words" if group.question == "neurons_with_words" else "token"
    try:
        answer = data.ask(group.question, **{term: text, "n": LOOKED})
    except AtlasError as error:
        return error
    return dict(reasons(group, answer))


def reasons(group: Group, answer: data.Answer) -> Iterator[tuple[Neuron, str]]:
    """Each neuron once, with what its first row says of it."""
    rows = answer.frame.unique(["layer", "neuron"], keep="first", maintain_order=True)
    for row in rows.iter_rows(named=True):
        yield Neuron(row["layer"], row["neuron"]), group.why.format(**row)


def glances(neurons: list[Neuron]) -> dict[Neuron, dict[str, Any]]:
    """Neurons at a glance, asked for all at once."""
    of = data.ask("neuron_previews", layers=[n.layer for n in neurons], neurons=[n.neuron for n in neurons]).frame
    return {Neuron(row["layer"], row["neuron"]): row for row in of.iter_rows(named=True)}


def show(neurons: Found, title: str, of: Mapping[Neuron, Mapping[str, Any]]) -> None:
    st.html(previews.rows([(of[where], why) for where, why in neurons.items()], title))
