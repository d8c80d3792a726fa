"""How well distances and depths of words agree with a parse tree (Hewitt and Manning 2019, sections 3 and 4.2)."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

LENGTHS = range(5, 51)
"""Words of the sentences whose rank correlations are averaged, first within each length."""


def spanning_tree(distances: np.ndarray, start: int) -> np.ndarray:
    """Find the tree with the least sum of distances [n, n] that joins n words, as the word before each on the way from `start`, [n]; -1 for `start`.

    Of equal distances the first word's counts.
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
    """Tell for each word with a head whether the two are joined in the tree `before`, [n_edges]; both [n], -1 for none."""
    words = np.flatnonzero(heads >= 0)
    return (before[words] == heads[words]) | (before[heads[words]] == words)


def renumber_heads(heads: np.ndarray, is_out: np.ndarray) -> np.ndarray:
    """Renumber the heads [n] among the words that stay, -1 for one that is out."""
    number = np.cumsum(~is_out) - 1
    kept = heads[~is_out]
    return np.where((kept >= 0) & ~is_out[kept], number[kept], -1)


def rank_correlations(found: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Compute Spearman's correlation of each row of two arrays, [m, n] to [m].

    Equal numbers share their mean rank, and a row of equal numbers has 0.
    """
    a, b = (rankdata(each, axis=1) - (each.shape[1] + 1) / 2 for each in (found, gold))
    lengths = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    return np.divide((a * b).sum(1), lengths, out=np.zeros(len(a)), where=lengths > 0)


def distance_correlation(found: np.ndarray, gold: np.ndarray) -> float:
    """Average over the words of a sentence the rank correlation of their distances to the others; both [n, n]."""
    others = ~np.eye(len(gold), dtype=bool)
    a, b = (each[others].reshape(len(gold), -1) for each in (found, gold))
    return float(rank_correlations(a, b).mean())


def depth_correlation(found: np.ndarray, gold: np.ndarray) -> float:
    """Compute the rank correlation of the depths of a sentence's words; both [n]."""
    return float(rank_correlations(found[None], gold[None])[0])


def over_lengths(correlations: Sequence[float], lengths: Sequence[int]) -> float | None:
    """Average over LENGTHS the mean over sentences of that length; None if there are none."""
    of_length = [np.mean(same) for n in LENGTHS if (same := [r for r, length in zip(correlations, lengths, strict=True) if length == n])]
    return float(np.mean(of_length)) if of_length else None
