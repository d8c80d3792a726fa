"""Scores of how well the distances and depths of words agree with a parse tree (Hewitt and Manning 2019, sections 3 and 4.2)."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

LENGTHS = range(5, 51)
"""Lengths in words of the sentences whose rank correlations are averaged, first within each length."""


def spanning_tree(distances: np.ndarray, start: int) -> np.ndarray:
    """Find the minimum spanning tree of n words from their distances [n, n].

    Returns, for each word, the word before it on the way from `start`, [n]; -1 for `start`. Among equal distances, the word with the lowest index joins first,
    and a word keeps the neighbour that joined earlier.
    """
    n = len(distances)
    before, nearest = np.full(n, start), distances[start].astype(np.float64)
    is_out = np.arange(n) != start
    before[start] = -1
    while is_out.any():
        new = int(np.where(is_out, nearest, np.inf).argmin())
        is_out[new] = False
        is_nearer = is_out & (distances[new] < nearest)
        nearest[is_nearer], before[is_nearer] = distances[new][is_nearer], new
    return before


def found_edges(heads: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Check, for each word with a head, whether the tree `before` joins the word and its head: [n_edges]. heads, before: [n], -1 for none."""
    words = np.flatnonzero(heads >= 0)
    return (before[words] == heads[words]) | (before[heads[words]] == words)


def renumber_heads(heads: np.ndarray, is_out: np.ndarray) -> np.ndarray:
    """Leave out some words, and renumber the heads [n] of the others; -1 for a word that has no head or whose head is left out."""
    number = np.cumsum(~is_out) - 1
    kept = heads[~is_out]
    return np.where((kept >= 0) & ~is_out[kept], number[kept], -1)


def rank_correlations(found: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Compute Spearman's correlation of each row of `found` with the same row of `gold`, [m, n] to [m].

    Equal numbers share their mean rank, and a row whose numbers are all equal has correlation 0.
    """
    a, b = (rankdata(each, axis=1) - (each.shape[1] + 1) / 2 for each in (found, gold))
    lengths = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    return np.divide((a * b).sum(1), lengths, out=np.zeros(len(a)), where=lengths > 0)


def distance_correlation(found: np.ndarray, gold: np.ndarray) -> float:
    """Average, over the words of a sentence, the rank correlation of each word's distances to the other words. found, gold: [n, n]."""
    others = ~np.eye(len(gold), dtype=bool)
    a, b = (each[others].reshape(len(gold), -1) for each in (found, gold))
    return float(rank_correlations(a, b).mean())


def depth_correlation(found: np.ndarray, gold: np.ndarray) -> float:
    """Compute the rank correlation of found and gold depths of a sentence's words. found, gold: [n]."""
    return float(rank_correlations(found[None], gold[None])[0])


def over_lengths(correlations: Sequence[float], lengths: Sequence[int]) -> float | None:
    """Average the correlations of the sentences of each length, then average over LENGTHS; None if no sentence has such a length."""
    of_length = [np.mean(same) for n in LENGTHS if (same := [r for r, length in zip(correlations, lengths, strict=True) if length == n])]
    return float(np.mean(of_length)) if of_length else None
