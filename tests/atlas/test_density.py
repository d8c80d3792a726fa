"""How often keys fire: dead, rare, usual and dense ones, from histograms written by hand. Bin 34 holds 0, bin 55 sizes from 4 to 6, bin 12 −4 to −6."""

import duckdb
import pytest


def count(con: duckdb.DuckDBPyConnection, neuron: int, low: float, high: float, bins: dict[int, int]) -> None:
    """The coefficients of a neuron of layer 1 at the positions of corpus 0."""
    histogram = [bins.get(i, 0) for i in range(68)]
    con.execute(
        "UPDATE neuron_statistics SET histogram = ?, min = ?, max = ?, n_positions = ? WHERE corpus_id = 0 AND layer = 1 AND neuron = ?",
        [histogram, low, high, sum(histogram), neuron],
    )


def rows(con: duckdb.DuckDBPyConnection) -> list[tuple]:
    return con.execute("SELECT neuron, density, share, threshold, p999 FROM neurons_by_density(layer := 1, corpus := 0)").fetchall()


def test_dead_rare_usual_and_dense_keys_are_told_apart_by_size_and_not_by_sign(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    count(tiny_copy, 0, 0.0, 0.0, {34: 10_000})
    count(tiny_copy, 1, 0.0, 4.0, {34: 9_800, 55: 200})
    count(tiny_copy, 2, -6.0, 0.0, {34: 7_000, 12: 3_000})
    count(tiny_copy, 3, 0.0, 4.0, {34: 2_000, 55: 8_000})
    # of neuron 2 position 9,990 of 10,000 is the 2,990th of 3,000 between 4 and 6; the median of 0, 4, 5.9933 and 4 is 4
    assert rows(tiny_copy) == [
        (0, "dead", 0.0, 0.04, 0.0),
        (1, "rare", 0.02, 0.4, 4.0),
        (2, "usual", 0.3, pytest.approx(0.5993333), pytest.approx(5.9933333)),
        (3, "dense", 0.8, 0.4, 4.0),
    ]


def test_a_key_that_fires_at_less_than_a_thousandth_is_rare_and_what_its_layer_calls_nothing_is_none(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    # at 9,995 positions between 1/256 and 1.5/256, which is nothing beside what the others come to; at five 4
    count(tiny_copy, 0, 0.0, 4.0, {35: 9_995, 55: 5})
    # the same without the five
    count(tiny_copy, 1, 0.0, 1.5 / 256, {35: 10_000})
    for neuron in (2, 3):
        count(tiny_copy, neuron, 0.0, 4.0, {34: 7_000, 55: 3_000})
    found = {neuron: (density, share) for neuron, density, share, *_ in rows(tiny_copy)}
    assert found == {0: ("rare", 0.0005), 1: ("dead", 0.0), 2: ("usual", 0.3), 3: ("usual", 0.3)}


def test_of_a_bin_that_the_threshold_lies_in_the_part_above_it_counts(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    for neuron in range(4):
        # position 9,990 is the 990th of 1,000 between 4 and 6; bin 49 holds sizes from 0.5 to 0.75, and 0.152 of these 0.25 are above 0.598
        count(tiny_copy, neuron, 0.0, 6.0, {34: 5_000, 49: 4_000, 55: 1_000})
    assert rows(tiny_copy)[0] == (0, "usual", pytest.approx((4_000 * 0.608 + 1_000) / 10_000), pytest.approx(0.598), pytest.approx(5.98))
