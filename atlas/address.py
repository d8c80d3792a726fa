"""Addresses for people: L3N17 is neuron 17 of layer 3, L3H7 its attention head 7, all counted from 0. Tables store the two numbers."""

import re
from typing import NamedTuple

from schema.errors import AtlasError


class Neuron(NamedTuple):
    """Layer and neuron, each counted from 0; str() gives the address."""

    layer: int
    neuron: int

    def __str__(self) -> str:
        return f"L{self.layer}N{self.neuron}"


class Head(NamedTuple):
    """Layer and attention head, each counted from 0; str() gives the address."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head}"


def parse_address(text: str) -> Neuron | Head:
    """Parse an address, in either case: 'L3N17' → Neuron(3, 17), 'L3H7' → Head(3, 7). Raises AtlasError for anything else."""
    match = re.fullmatch(r"L(\d{1,9})([NH])(\d{1,9})", str(text).strip(), re.ASCII | re.IGNORECASE)
    if match is None:
        raise AtlasError(
            f"'{str(text)[:40]}' is not an address: write L<layer>N<neuron> or L<layer>H<head>, counted from 0, such as L3N17 for a neuron "
            "or L3H7 for an attention head"
        )
    kind = Neuron if match[2] in "Nn" else Head
    return kind(int(match[1]), int(match[3]))


def parse_neuron(text: str) -> Neuron:
    """Parse the address of a neuron, as parse_address does. Raises AtlasError for the address of a head."""
    if isinstance(found := parse_address(text), Head):
        raise AtlasError(f"{found} is an attention head, but a neuron is needed here, such as L{found.layer}N17; `atlas show {found}` shows the head")
    return found


def parse_head(text: str) -> Head:
    """Parse the address of a head, as parse_address does. Raises AtlasError for the address of a neuron."""
    if isinstance(found := parse_address(text), Neuron):
        raise AtlasError(f"{found} is a neuron, but an attention head is needed here, such as L{found.layer}H7; `atlas show {found}` shows the neuron")
    return found
