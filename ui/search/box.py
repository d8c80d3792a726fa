"""Results of the search box: the component or position that was typed, or neurons in groups.

The groups are neurons whose value promotes the token, neurons whose triggers end in it or are followed by it, and neurons whose texts have the words.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import polars as pl
import streamlit as st

from atlas.address import Head, Neuron, parse_address
from atlas.export.visible import visible_text
from atlas.questions import question
from atlas.ranges import missing_run
from schema.errors import AtlasError
from ui import blocks, data, frame, links, previews
from ui.search.ways import NO_SWEEP
from ui.tray import collecting

LONGEST = 200
"""Maximum characters of a search."""


@dataclass(frozen=True)
class SearchInput:
    """Possible meanings of the typed text: a component, a position, and always text, several of them at once."""

    component: Neuron | Head | None
    position: int | None
    text: str


def parse(typed: str) -> SearchInput:
    """Parse what was typed: 'L20N100' is a neuron, '136' a position and a token. Text keeps its outer spaces only if it consists of nothing else."""
    text = (typed.strip() or typed)[:LONGEST]
    try:
        component = parse_address(text)
    except AtlasError:
        component = None
    return SearchInput(component, int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None, text)


OF_TAIL = "{n_triggers} of the {n_kept} {tail}"

SHOWN, LOOKED = 8, 60
"""Maximum number of neurons shown of a group, and of rows that they are taken from: a neuron may have one row for each tail."""


@dataclass(frozen=True)
class Group:
    """A group of results.

    heading: text before the word. question: finds the neurons. way: the single search that lists all of them. why: template of the reason why a row was found.
    match: the part of the text that matches.
    """

    heading: str
    question: str
    way: str
    why: str
    match: Literal["", "trigger", "next", "words"] = ""


GROUPS = (
    Group("Values that promote", "neurons_promoting", "promoted token", "{token}: rank {rank}, {score:+.2f}"),
    Group("Keys whose triggers end in", "neurons_triggered_by", "trigger", OF_TAIL, "trigger"),
    Group("Keys whose triggers are followed by", "neurons_triggered_before", "token after", OF_TAIL, "next"),
    Group("Keys whose triggers' texts have", "neurons_with_words", "words", OF_TAIL, "words"),
)


@dataclass(frozen=True)
class Hit:
    """The reason why a neuron was found, and the position of the trigger that matched; None if its value matched."""

    why: str
    position_id: int | None


Found = dict[Neuron, Hit]
"""Neurons that were found, in the order of the question."""


def answer(typed: str) -> None:
    """Show the results for all possible meanings of the typed text."""
    asked = parse(typed)
    if asked.component:
        component(asked.component)
    elsewhere = [] if asked.position is None or not position(asked.position) else ["position"]
    if not asked.component:
        words(asked.text, elsewhere)


def component(where: Neuron | Head) -> None:
    """Show a link to a component, with a preview of a neuron; or a message that this model does not have it."""
    model = data.model()
    n = model["n_heads"] if isinstance(where, Head) else model["d_ffn"]
    st.header("Address", anchor=False)
    if where[0] >= model["n_layers"] or where[1] >= n:
        units = "heads" if isinstance(where, Head) else "neurons"
        blocks.explain_empty(f"There is no {where}: this model has layers 0 to {model['n_layers'] - 1}, each with {units} 0 to {n - 1}.")
    elif isinstance(where, Head):
        st.html(links.anchor(links.component(where), f"Attention head {where}"))
    else:
        alone = {where: Hit("", None)}
        show(alone, "Address", glances(alone))


def position(number: int) -> bool:
    """Show a link to a position and return whether it is traced; if it is not, show the nearest positions that are."""
    st.header("Position", anchor=False)
    try:
        last = data.ask("prediction_trace", position_id=number).frame.row(-1, named=True)
    except AtlasError as error:
        blocks.explain_empty(str(error))
        return False
    said = f"the model predicts <bdi>{escape(visible_text(last['final_token']))}</bdi> there"
    st.html(f"{links.anchor(links.prediction(number), f'Position {number}')}: {said}")
    return True


def words(text: str, elsewhere: Sequence[str]) -> None:
    """Show the groups, each as soon as it is found; for an empty group, name the groups with results. `elsewhere`: headings above that have results."""
    known = [group for group in GROUPS if not missing_run(data.atlas().con, question(group.question).sql)]
    if len(known) < len(GROUPS):
        blocks.explain_empty(*NO_SWEEP)
    faults, places, found = st.container(), {group: st.container() for group in known}, dict[Group, Found | AtlasError]()
    for group, place in places.items():
        found[group] = find_neurons(group, text)
        with place:
            show_group(group, found[group], text)
    with faults:
        for fault in sorted({str(f) for f in found.values() if isinstance(f, AtlasError)}):
            blocks.explain_empty(f"As a token: {fault}" if "no token" in fault else fault)
    others = [*elsewhere, *(f"{group.heading.lower()} it" for group, f in found.items() if f and not isinstance(f, AtlasError))]
    for group, place in places.items():
        if found[group] == {}:
            with place:
                head(group, text)
                st.text(f"None. It is found under: {', '.join(others)}." if others else "None.")


def head(group: Group, text: str) -> None:
    """Show the heading of a group with the word, without its outer spaces, since tokens are looked for with and without a leading space."""
    frame.show_heading(f"{group.heading} {visible_text(text.strip(' ') or text)}", 2)


def show_group(group: Group, found: Found | AtlasError, text: str) -> None:
    """Show a group that has neurons: the first of them, each with the text that matched, and a link to all."""
    if isinstance(found, AtlasError) or not found:
        return
    head(group, text)
    shown = dict(list(found.items())[:SHOWN])
    show(shown, f"{group.heading} {text}", glances(shown, group), group, text)
    collecting.offer(pl.DataFrame(list(shown), schema=["layer", "neuron"], orient="row"), group.question)
    st.html(links.anchor(links.link(links.SEARCH, by=group.way, term=text), "All of them, and by tail and corpus"))


def find_neurons(group: Group, text: str) -> Found | AtlasError:
    """Find the neurons of a group, or the error if its question cannot be asked."""
    term = "words" if group.question == "neurons_with_words" else "token"
    try:
        answer = data.ask(group.question, **{term: text, "n": LOOKED})
    except AtlasError as error:
        return error
    return dict(reasons(group, answer))


def reasons(group: Group, answer: data.Answer) -> Iterator[tuple[Neuron, Hit]]:
    """Yield each neuron once, with the reason in its first row."""
    rows = answer.frame.unique(["layer", "neuron"], keep="first", maintain_order=True)
    for row in rows.iter_rows(named=True):
        said = {**row, "token": visible_text(row.get("token")), "tail": previews.TAILS.get(row.get("tail", ""))}
        yield Neuron(row["layer"], row["neuron"]), Hit(group.why.format(**said), row.get("position_id"))


def glances(found: Found, group: Group | None = None) -> dict[Neuron, dict[str, Any]]:
    """Read the previews of all neurons in one question.

    Each has the text that matched or, if its value matched, the text with its largest coefficient.
    """
    shown: dict[str, object] = {}
    if group is not None:
        shown = {"position_ids": [hit.position_id for hit in found.values()]} if group.match else {"tail": "max"}
        shown["width"] = previews.WIDE if group.match == "words" else previews.NARROW
    of = data.ask("neuron_previews", layers=[n.layer for n in found], neurons=[n.neuron for n in found], **shown).frame
    return {Neuron(row["layer"], row["neuron"]): row for row in of.iter_rows(named=True)}


def show(found: Found, title: str, of: Mapping[Neuron, Mapping[str, Any]], group: Group | None = None, text: str = "") -> None:
    match = previews.Match(group.match, text) if group else previews.Match()
    st.html(previews.rows([(of[where], hit.why) for where, hit in found.items()], title, match))
