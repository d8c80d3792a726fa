"""Bootstrap intervals over clusters: how much a mean would vary with other documents or templates. Too few clusters give no interval.

Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapter 12.5 (bootstrap-t).
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from schema.errors import AtlasError

N_DRAWS = 10_000
LEAST_CLUSTERS = 12
"""Fewest clusters for an interval. With fewer, if they are skewed or unequal, under 93% of intervals contain the mean (tests/ingest/test_intervals.py)."""
TAIL = 0.015
"""Share of the draws beyond each end of the interval.

A share of 2.5% suffices for many clusters; with it, only 90 to 92% of the intervals over 12 to 30 skewed clusters contain the mean.
"""
AT_ONCE = 2_000_000
"""Maximum size of a block of draws: draws × clusters."""


@dataclass(frozen=True)
class Interval:
    """95% interval of a mean over clusters; both ends are None if there is no interval. note: how it was made, or why there is none."""

    low: float | None
    high: float | None
    n_clusters: int
    note: str

    @property
    def n_draws(self) -> int:
        return 0 if self.low is None else N_DRAWS


def cluster_interval(values: np.ndarray, clusters: np.ndarray, seed: int, bounds: tuple[float, float]) -> Interval:
    """Estimate the interval of the mean of values, [n]; values of one cluster count as about one observation. bounds: smallest and largest possible mean."""
    _, number = np.unique(clusters, return_inverse=True)
    sums, counts = np.bincount(number, values), np.bincount(number).astype(np.float64)
    n = len(sums)
    if n < LEAST_CLUSTERS:
        return Interval(None, None, n, f"none: {n} of at least {LEAST_CLUSTERS} clusters")
    low, high = bootstrap_t(sums, counts, draws(n, seed))
    if not np.isfinite([low, high]).all():
        return Interval(None, None, n, f"none: too few of the {n} clusters differ from the others")
    return Interval(float(max(low, bounds[0])), float(min(high, bounds[1])), n, "bootstrap-t")


def draws(n_clusters: int, seed: int) -> Iterator[np.ndarray]:
    """Yield blocks of bootstrap draws, [block, n_clusters], N_DRAWS rows in total. A row counts how often each cluster is drawn, with replacement."""
    generator, step = np.random.default_rng(seed), max(1, AT_ONCE // n_clusters)
    for start in range(0, N_DRAWS, step):
        drawn = generator.integers(n_clusters, size=(min(step, N_DRAWS - start), n_clusters)) + n_clusters * np.arange(min(step, N_DRAWS - start))[:, None]
        yield np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)


def bootstrap_t(sums: np.ndarray, counts: np.ndarray, blocks: Iterable[np.ndarray]) -> tuple[float, float]:
    """Compute the ends of the interval of Σ sums / Σ counts over clusters; an end is infinite or NaN if it falls on a draw whose clusters do not differ."""
    n = len(sums)
    of_cluster = np.stack([sums, counts, sums**2, sums * counts, counts**2], axis=1)
    mean, error = mean_and_error(of_cluster.sum(0)[None], n)
    # sums of draws differ in the last bits from those of the whole
    found = [mean_and_error(block @ of_cluster, n) for block in blocks]
    means, errors = (np.concatenate(part) for part in zip(*found, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (means - mean) / errors
    # a draw of like clusters that lie at the mean itself may stand at either end, as those beside the mean do
    below, above = (np.quantile(np.where(np.isnan(t), end, t), q, method="inverted_cdf") for end, q in ((-np.inf, TAIL), (np.inf, 1 - TAIL)))
    with np.errstate(invalid="ignore"):
        return float(mean[0] - above * error[0]), float(mean[0] - below * error[0])


def mean_and_error(of: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the ratio of sum to count and its linearised standard error, both [draws].

    of: totals over n clusters of s, c, s², s·c and c², [draws, 5], where s is a cluster's sum and c its count.
    """
    s, c, ss, sc, cc = of.T
    mean = s / c
    square = ss - 2 * mean * sc + mean**2 * cc
    # less than rounding leaves of clusters that are all alike is nothing
    square = np.where(square > 1e-12 * (ss + mean**2 * cc), square, 0.0)
    return mean, np.sqrt(square * n / (n - 1)) / c


@dataclass(frozen=True)
class Difference:
    """Mean difference with its interval, in the units of the scores."""

    mean: float
    interval: Interval


def paired_difference(scores: Sequence[float], base: Sequence[float], clusters: Sequence[Hashable], seed: int) -> Difference:
    """Compute the mean of scores - base, item by item, with its interval over clusters; scores and base are in [0, 1].

    The items of a cluster have something in common, such as the template of a prompt: ten prompts of one template are about one observation.
    Raises AtlasError for lists of different lengths.
    """
    if not len(scores) == len(base) == len(clusters):
        raise AtlasError(f"{len(scores)} scores, {len(base)} of the base and {len(clusters)} clusters were given; give one of each per item")
    place = {name: i for i, name in enumerate(sorted({*clusters}, key=repr))}
    difference = np.asarray(scores, dtype=np.float64) - np.asarray(base, dtype=np.float64)
    of = np.array([place[cluster] for cluster in clusters])
    return Difference(float(difference.mean()), cluster_interval(difference, of, seed, (-1.0, 1.0)))
