"""Addresses of neurons and heads are read and written by one pair of functions."""

import pytest

from atlas import Head, Neuron, parse_address
from atlas.address import parse_head, parse_neuron
from schema.errors import AtlasError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("L3N17", Neuron(3, 17)),
        ("l0n0", Neuron(0, 0)),
        (" L12N4095 ", Neuron(12, 4095)),
        ("L3H7", Head(3, 7)),
        ("l31h0", Head(31, 0)),
    ],
)
def test_address_is_read_for_what_it_is(text: str, address: Neuron | Head) -> None:
    found = parse_address(text)
    assert (type(found), *found) == (type(address), *address)


@pytest.mark.parametrize("text", ["", "3,17", "L3", "L-1N2", "L3N17x", "N17L3", "L3 N17", "L3N1.5", "L3X7", "L3HN7", "L３N17", f"L{'9' * 5000}N0"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(AtlasError, match="such as L3N17 for a neuron or L3H7 for an attention head") as refused:
        parse_address(text)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(("address", "text"), [(Neuron(29, 1535), "L29N1535"), (Head(3, 17), "L3H17")])
def test_writing_and_reading_is_the_identity(address: Neuron | Head, text: str) -> None:
    assert str(address) == text
    assert parse_address(str(address)) == address


def test_one_kind_asked_for_and_the_other_given_says_how_to_see_it() -> None:
    assert parse_neuron("L3N7") == parse_head("L3H7") == (3, 7)
    with pytest.raises(AtlasError, match="L3H7 is an attention head, but a neuron is needed here, such as L3N17; `atlas show L3H7`"):
        parse_neuron("l3h7")
    with pytest.raises(AtlasError, match="L3N7 is a neuron, but an attention head is needed here, such as L3H7; `atlas show L3N7`"):
        parse_head("l3n7")
