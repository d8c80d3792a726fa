"""Addresses are read and written by one pair of functions."""

import pytest

from atlas import Address, format_address, parse_address
from schema.errors import AtlasError


@pytest.mark.parametrize(("text", "address"), [("L3N17", (3, 17)), ("l0n0", (0, 0)), (" L12N4095 ", (12, 4095))])
def test_address_is_read(text: str, address: tuple[int, int]) -> None:
    assert parse_address(text) == Address(*address)


@pytest.mark.parametrize("text", ["", "3,17", "L3", "L-1N2", "L3N17x", "N17L3", "L3 N17", "L3N1.5"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(AtlasError, match="such as L3N17"):
        parse_address(text)


def test_writing_and_reading_is_the_identity() -> None:
    assert parse_address(format_address(29, 1535)) == (29, 1535)
    assert format_address(3, 17) == "L3N17"
