"""What neighbours predict and what is chosen, against loops over Python's numbers."""

from collections import defaultdict
from math import exp, inf, log

import numpy as np
import pytest

from atlas.beside.retrieval.mixture import WEIGHTS, Choice, Shares, choose, median_nearest, parameter_grid, perplexities, shares
from atlas.beside.retrieval.search import Neighbours
from schema.errors import AtlasError


def neighbours(rows: list[list[tuple[float, int]]]) -> Neighbours:
    """(distance, token) of each query's neighbours."""
    return Neighbours(
        np.array([[d for d, _ in row] for row in rows], np.float32),
        np.array([[-1 if d == inf else 10 * i for i, (d, _) in enumerate(row)] for row in rows]),
        np.array([[token for _, token in row] for row in rows], np.int32),
    )


def by_hand(row: list[tuple[float, int]], following: int, k: int, temperature: float) -> tuple[float, ...]:
    weights: dict[int, float] = defaultdict(float)
    for distance, token in row[:k]:
        if distance < inf:
            weights[token] += exp(-distance / temperature)
    total = sum(weights.values())
    top = max(sorted(weights), key=lambda token: weights[token])
    probs = {token: weight / total for token, weight in weights.items()}
    return probs.get(following, 0.0), top, probs[top], -sum(p * log(p) for p in probs.values() if p), len(weights), log(total)


def test_shares_are_those_of_a_loop() -> None:
    generator = np.random.default_rng(1)
    rows = [sorted(zip(generator.uniform(1, 9, 12).astype(np.float32).tolist(), generator.integers(0, 5, 12).tolist(), strict=True)) for _ in range(20)]
    rows[0][-3:] = [(inf, -1)] * 3
    following, settings = generator.integers(0, 6, 20), [(1, 1.0), (4, 0.3), (12, 2.0), (12, 30.0)]
    for (k, temperature), got in zip(settings, shares(neighbours(rows), following, settings), strict=True):
        for i, row in enumerate(rows):
            wanted = by_hand(row, int(following[i]), k, temperature)
            assert [column[i] for column in got] == pytest.approx(list(wanted), abs=1e-12)


def test_large_distances_leave_a_distribution() -> None:
    """exp(-2000) alone is 0 in float64."""
    (found,) = shares(neighbours([[(2000.0, 3), (2001.0, 4)]]), np.array([3]), [(2, 1.0)])
    assert found.next_token_prob[0] == pytest.approx(1 / (1 + exp(-1)), abs=1e-9)
    assert found.log_normaliser[0] == pytest.approx(-2000 + log(1 + exp(-1)), abs=1e-9)


def test_a_temperature_of_1_leaves_one_neighbour_where_distances_are_large() -> None:
    """So temperatures are multiples of the median distance."""
    rows = neighbours([[(100.0, 3), (130.0, 4), (140.0, 4)]])
    sharp, scaled = shares(rows, np.array([4]), [(3, 1.0), (3, 100.0)])
    assert sharp.next_token_prob[0] < 1e-12
    assert scaled.next_token_prob[0] > 0.5
    assert {temperature for _, temperature in parameter_grid(8, 100.0)} == {3.0, 10.0, 30.0, 100.0, 300.0, 1000.0}
    assert sorted({k for k, _ in parameter_grid(512, 1.0)}) == [8, 64, 256, 512]
    assert sorted({k for k, _ in parameter_grid(3, 1.0)}) == [3]


def test_without_weight_the_perplexity_is_the_models() -> None:
    surprisals, probs = np.array([0.3, 2.0, 5.0], np.float32), np.array([0.9, 0.0, 0.5])
    found = perplexities(surprisals, probs)
    assert found[0] == pytest.approx(exp((0.3 + 2.0 + 5.0) / 3), rel=1e-6)
    assert found[5] == pytest.approx(exp(-(log(0.75 * exp(-0.3) + 0.25 * 0.9) + log(0.75 * exp(-2)) + log(0.75 * exp(-5) + 0.125)) / 3), rel=1e-6)
    assert found[20] == inf
    assert WEIGHTS.tolist() == [i / 20 for i in range(21)]


def test_the_smallest_perplexity_is_chosen_and_ties_go_to_less() -> None:
    def of(*probs: float) -> Shares:
        return Shares(np.array(probs), *(np.zeros(len(probs)),) * 5)

    surprisals = np.log([2.0, 4.0])
    settings = [(8, 0.5), (8, 1.0), (64, 0.5)]
    chosen = choose(surprisals, [of(0.6, 0.3), of(0.9, 0.9), of(0.9, 0.9)], settings)
    assert chosen == Choice(8, 1.0, 1.0, pytest.approx(1 / 0.9))
    assert choose(surprisals, [of(0.0, 0.0)] * 3, settings) == Choice(8, 0.5, 0.0, pytest.approx(8**0.5))


def test_texts_that_say_nothing_of_retrieval_are_refused() -> None:
    assert median_nearest(neighbours([[(1.0, 1)], [(5.0, 1)], [(2.0, 1)]])) == 2.0
    with pytest.raises(AtlasError, match="1 of 2 queries have no neighbour: all entries of the store come from the query's own text"):
        median_nearest(neighbours([[(1.0, 1)], [(inf, -1)]]))
    with pytest.raises(AtlasError, match="half of the queries are copies of entries"):
        median_nearest(neighbours([[(0.0, 1)], [(0.0, 1)], [(2.0, 1)]]))
