"""Addresses of neurons for people: L3N17 is neuron 17 of layer 3, both counted from 0. Tables keep the two numbers."""

import re
from typing import NamedTuple

from schema.errors import AtlasError


class Address(NamedTuple):
    """Layer and neuron, each counted from 0."""

    layer: int
    neuron: int


def parse_address(text: str) -> Address:
    """'L3N17' → Address(3, 17), in either case. Raises AtlasError for anything else."""
    match = re.fullmatch(r"[Ll](\d+)[Nn](\d+)", str(text).strip())
    if match is None:
        raise AtlasError(f"'{text}' is no address of a neuron: write L<layer>N<neuron>, both from 0, such as L3N17")
    return Address(int(match[1]), int(match[2]))


def format_address(layer: int, neuron: int) -> str:
    """3, 17 → 'L3N17'."""
    return f"L{layer}N{neuron}"
