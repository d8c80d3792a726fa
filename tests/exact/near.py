"""Comparisons that allow for rounding and say how: values within a tolerance, and other orders only among near-ties."""

import numpy as np


def close(name: str, got: np.ndarray, want: np.ndarray, tolerance: float, floor: np.ndarray | float = 0.0) -> float:
    """Assert |got - want| <= tolerance · (|want| + floor) everywhere, NaN in the same places; returns the largest quotient."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape, f"{name}: {got.shape} where {want.shape} are expected"
    assert np.array_equal(np.isnan(got), np.isnan(want)), f"{name}: nulls in other places"
    scale = np.abs(want) + floor
    error = np.nan_to_num(np.abs(got - want)) / np.where(scale > 0, scale, 1e-30)
    worst = float(np.nan_to_num(error).max(initial=0))
    place = np.unravel_index(np.nan_to_num(error).argmax(), error.shape) if error.size else ()
    assert worst <= tolerance, f"{name}: error {worst:.3g} > {tolerance:.3g} at {tuple(map(int, place))}: {got[place]!r} where {want[place]!r} is expected"
    return worst


def check_ranking(name: str, ids: np.ndarray, values: np.ndarray, scores: np.ndarray, tie: np.ndarray | float, *, equal_may_swap: bool = False) -> int:
    """Assert that `ids` [rows, k] are the k largest of `scores` [rows, size] in order, equal ones by lower id, and return how many places differ.

    A place may hold another id only if the scores of both differ, and by at most `tie` ([rows, 1] or one number). `equal_may_swap`
    allows it for equal scores too, other than zero (ReLU's zeros have no rounding): the same text in another batch is rounded otherwise.
    `values` are those stored with the ids: they fall along the row, and of equal ones the lower id comes first.
    """
    assert ids.shape[1] <= scores.shape[1], f"{name}: {ids.shape[1]} ranks of {scores.shape[1]} scores"
    order = largest(scores, ids.shape[1])
    expected, own = np.take_along_axis(scores, order, 1), np.take_along_axis(scores, ids, 1)
    distinct = np.sort(ids, axis=1)
    assert (distinct[:, 1:] != distinct[:, :-1]).all(), f"{name}: an id twice in one ranking"
    differs = ids != order
    refused = differs & ((np.abs(own - expected) > tie) | ((own == expected) & ((own == 0) | (not equal_may_swap))))
    assert not refused.any(), f"{name}: {refused.sum()} places differ by more than a tie; first: {first(refused, ids, order, own, expected)}"
    falls = (values[:, 1:] < values[:, :-1]) | ((values[:, 1:] == values[:, :-1]) & (ids[:, 1:] > ids[:, :-1]))
    assert falls.all(), f"{name}: {(~falls).sum()} places out of order by the values stored"
    return int(differs.sum())


def largest(scores: np.ndarray, k: int) -> np.ndarray:
    """Ids of the k largest of each row, best first, equal ones by lower id: [rows, k]. Only those that reach the k-th best are sorted."""
    reached = np.partition(scores, scores.shape[1] - k, axis=1)[:, -k]
    order = np.empty((len(scores), k), np.int64)
    for row, (own, least) in enumerate(zip(scores, reached, strict=True)):
        ids = np.flatnonzero(own >= least)
        order[row] = ids[np.lexsort((ids, -own[ids]))[:k]]
    return order


def first(where: np.ndarray, *arrays: np.ndarray) -> str:
    row, column = (int(i[0]) for i in np.nonzero(where))
    return f"row {row} rank {column + 1}: " + " ".join(str(a[row, column]) for a in arrays)


def check_ranks(name: str, ranks: np.ndarray, scores: np.ndarray, ids: np.ndarray, tie: np.ndarray | float) -> int:
    """Assert the rank (from 1, equal scores by lower id) of ids [rows] in scores [rows, size].

    Scores that differ, but by less than `tie`, may lie on either side. Returns how many ranks make use of that.
    """
    own = np.take_along_axis(scores, ids[:, None], 1)
    before = (scores == own) & (np.arange(scores.shape[1]) < ids[:, None])
    exact = 1 + (scores > own).sum(1) + before.sum(1)
    lowest = 1 + (scores > own + tie).sum(1) + before.sum(1)
    highest = 1 + ((scores > own - tie) & (scores != own)).sum(1) + before.sum(1)
    wrong = (ranks < lowest) | (ranks > highest)
    assert not wrong.any(), f"{name}: {wrong.sum()} wrong ranks; first: {ranks[wrong][0]} where {exact[wrong][0]} is expected"
    return int((ranks != exact).sum())


def check_top(name: str, ids: np.ndarray, scores: np.ndarray, tie: np.ndarray | float) -> int:
    """Assert that ids [rows] have the largest of scores [rows, size], the lowest id on ties, or one within `tie` of it."""
    own, best = np.take_along_axis(scores, ids[:, None], 1)[:, 0], scores.max(1)
    differs = ids != scores.argmax(1)
    wrong = differs & ((best - own > np.ravel(tie)) | (best == own))
    assert not wrong.any(), f"{name}: {wrong.sum()} wrong tops; first: {ids[wrong][0]} where {scores.argmax(1)[wrong][0]} is expected"
    return int(differs.sum())


def check_counts(name: str, counts: np.ndarray, lowest: np.ndarray, highest: np.ndarray) -> None:
    """Assert lowest <= counts <= highest: the two differ only by what lies within rounding of a boundary."""
    wrong = (counts < lowest) | (counts > highest)
    assert not wrong.any(), f"{name}: {wrong.sum()} wrong counts; first: {counts[wrong][0]} where {lowest[wrong][0]} to {highest[wrong][0]} is right"
