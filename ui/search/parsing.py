"""What was typed into the one box. Pure."""

import re
from dataclasses import dataclass

from atlas.address import Head, Neuron, parse_address
from schema.errors import AtlasError

LONGEST = 200
"""Characters looked for."""


@dataclass(frozen=True)
class Asked:
    """What the box may mean: at once a component, a position, and always text."""

    component: Neuron | Head | None
    position: int | None
    text: str


def parse(typed: str) -> Asked:
    """'L20N100' is a neuron, '136' a position and a token. Text keeps its spaces only where nothing else is typed."""
    text = (typed.strip() or typed)[:LONGEST]
    try:
        component = parse_address(text)
    except AtlasError:
        component = None
    return Asked(component, int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None, text)
