"""Choice of a component: the one that the address names, links to its neighbours, and the tabs of its view."""

import random
from collections.abc import Mapping
from typing import Any

import streamlit as st

from atlas.address import Head, Neuron, parse_address
from atlas.ranges import check_below
from schema.errors import AtlasError, what_there_is
from ui import links
from ui.links import Link

Component = Neuron | Head


def read_component(model: Mapping[str, Any]) -> Component | None:
    """Read the component that the address names; None if it names none. Raises AtlasError if this model does not have the component."""
    asked = st.query_params.get("at", "")
    if not asked:
        return None
    where = parse_address(asked)
    check_below(where[0], "layer", model["n_layers"])
    check_below(where[1], where._fields[1], size(type(where), model))
    return where


def size(kind: type[Component], model: Mapping[str, Any]) -> int:
    """Count the components of a kind in a layer."""
    return int(model["n_heads"] if kind is Head else model["d_ffn"])


def steps(where: Component, model: Mapping[str, Any]) -> str:
    """Build links to the previous component of the same kind, the next one, and a random one."""
    kind, n = type(where), size(type(where), model)
    here, last = where[0] * n + where[1], model["n_layers"] * n - 1
    places = {"Previous": here - 1, "Next": here + 1, "Random": random.randint(0, last)}
    return " · ".join(links.anchor(links.component(kind(*divmod(place, n))), name) for name, place in places.items() if 0 <= place <= last)


def begin(model: Mapping[str, Any]) -> str:
    """Suggest a random neuron and, if the model's heads are read, a random head as links, which the page shows if the address names no component."""
    kinds: dict[str, type[Neuron] | type[Head]] = {"neuron": Neuron, "attention head": Head} if model["n_heads"] else {"neuron": Neuron}
    some = {name: kind(random.randrange(model["n_layers"]), random.randrange(size(kind, model))) for name, kind in kinds.items()}
    listed = " · ".join(links.anchor(links.component(where), f"{name.split()[-1]} {where}") for name, where in some.items())
    each = " and ".join(f"every {name}" for name in kinds).capitalize()
    return f"{each} has a view of its own: write its address into the box above, or begin with a random one: {listed}"


def tab(where: Component, tabs: Mapping[str, str]) -> str:
    """Show links to the tabs, and return the tab that the address names, the first if it names none. Raises AtlasError if there is no such tab."""
    asked = st.query_params.get("tab", "") or next(iter(tabs))
    st.html(f'<nav class="tabs" aria-label="More of {where}">{"".join(tab_anchor(where, name, label, asked, tabs) for name, label in tabs.items())}</nav>')
    if asked not in tabs:
        raise AtlasError(f"no tab {asked}; {what_there_is(', '.join(tabs))}")
    return asked


def tab_anchor(where: Component, name: str, label: str, asked: str, tabs: Mapping[str, str]) -> str:
    to: Link = links.component(where, tab=None if name == next(iter(tabs)) else name)
    # read by the script: the page is not scrolled to its top
    return links.anchor(to, label, data_stays="", **({"aria_current": "true"} if name == asked else {}))
