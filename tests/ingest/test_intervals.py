"""Intervals over clusters: how many of them hold the mean, by simulation, against scipy's quantiles, and where there is none."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from threadpoolctl import threadpool_limits

from ingest.acting.bootstrap import LEAST_CLUSTERS, N_DRAWS, TAIL, bootstrap_t, cluster_interval, draws, paired_difference

Drawn = tuple[np.ndarray, np.ndarray, float]


def normal(n: int, k: int, random: np.random.Generator) -> Drawn:
    return random.normal(size=(n, k)), np.ones((n, k)), 0.0


def lognormal(n: int, k: int, random: np.random.Generator) -> Drawn:
    return random.lognormal(0, 1, (n, k)), np.ones((n, k)), float(np.exp(0.5))


def unequal_binary(n: int, k: int, random: np.random.Generator) -> Drawn:
    """Accuracies about 95%, of documents of 100 words at the median; one in six is twice as long or longer."""
    counts = np.maximum(1, np.round(100 * random.lognormal(0, 0.7, (n, k)))).astype(int)
    return random.binomial(counts, random.beta(28.5, 1.5, (n, k))).astype(float), counts.astype(float), 0.95


WORLDS: tuple[Callable[[int, int, np.random.Generator], Drawn], ...] = (normal, lognormal, unequal_binary)


def coverage(world: Callable[[int, int, np.random.Generator], Drawn], n: int, k: int) -> float:
    """Share of the intervals over k clusters that hold the mean of what the clusters are drawn from."""
    blocks = list(draws(k, 0))
    sums, counts, mean = world(n, k, np.random.default_rng(11))
    with threadpool_limits(1):
        ends = np.array([bootstrap_t(s, c, blocks) for s, c in zip(sums, counts, strict=True)])
    assert np.isfinite(ends).mean() > 0.99
    return float(((ends[:, 0] <= mean) & (mean <= ends[:, 1])).mean())


@pytest.mark.parametrize("world", WORLDS)
def test_of_the_least_clusters_93_of_100_intervals_hold_the_mean(world: Callable[[int, int, np.random.Generator], Drawn]) -> None:
    """To a hundredth, which 600 intervals tell no nearer; percentile intervals hold 79 to 90."""
    assert 0.92 <= coverage(world, 600, LEAST_CLUSTERS) <= 0.99


@pytest.mark.ci_cases(2)
@pytest.mark.thorough
@pytest.mark.parametrize("k", [LEAST_CLUSTERS, 20])
@pytest.mark.parametrize("world", WORLDS)
def test_of_4000_intervals_93_in_100_hold_the_mean(world: Callable[[int, int, np.random.Generator], Drawn], k: int) -> None:
    assert 0.93 <= coverage(world, 4000, k) <= 0.98


def test_an_interval_is_that_of_studentised_draws() -> None:
    """Clusters of one each: scipy's mean and standard error of draws that numpy makes otherwise."""
    x, random = np.random.default_rng(2).exponential(size=14), np.random.default_rng(9)
    drawn = random.choice(x, size=(40_000, 14))
    t = (drawn.mean(1) - x.mean()) / stats.sem(drawn, axis=1)
    low, high = x.mean() - stats.sem(x) * np.quantile(t, [1 - TAIL, TAIL])
    found = cluster_interval(x, np.arange(14), 1, (-10.0, 10.0))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.04 * (high - low))
    assert (found.n_clusters, found.n_draws, found.note) == (14, N_DRAWS, "bootstrap-t")


def test_each_draw_takes_as_many_clusters_as_there_are() -> None:
    for k in (12, 500):
        blocks = list(draws(k, 3))
        assert sum(map(len, blocks)) == N_DRAWS and all((block.sum(1) == k).all() for block in blocks)
        assert np.concatenate(blocks).mean(0) == pytest.approx(1.0, abs=0.06)


def test_an_interval_is_over_clusters_and_not_over_items() -> None:
    """200 documents of five words, all right or all wrong: five times the variance of as many words by themselves."""
    is_right = np.repeat(np.random.default_rng(0).random(200) < 0.7, 5)
    together, apart = (cluster_interval(is_right, clusters, 1, (0.0, 1.0)) for clusters in (np.arange(1000) // 5, np.arange(1000)))
    p = is_right.mean()
    # 3% of a normal distribution lie beyond
    assert (together.high - together.low) / 2 == pytest.approx(stats.norm.isf(TAIL) * np.sqrt(p * (1 - p) / 200), rel=0.1)  # type: ignore[operator]
    assert together.low < p < together.high
    assert (together.high - together.low) / (apart.high - apart.low) == pytest.approx(np.sqrt(5), rel=0.1)  # type: ignore[operator]


def test_too_few_clusters_and_clusters_that_are_alike_give_no_interval_and_say_why() -> None:
    few = cluster_interval(np.arange(4.0), np.array([0, 1, 2, 2]), 0, (0.0, 1.0))
    assert (few.low, few.high, few.n_clusters, few.n_draws, few.note) == (None, None, 3, 0, f"none: 3 of at least {LEAST_CLUSTERS} clusters")
    alike = cluster_interval(np.tile([1.0, 0.0], 20), np.arange(40) // 2, 0, (0.0, 1.0))
    one_differs = cluster_interval(np.arange(40) > 0, np.arange(40) // 2, 0, (0.0, 1.0))
    for found in (alike, one_differs):
        assert (found.low, found.high, found.n_clusters, found.note) == (None, None, 20, "none: too few of the 20 clusters differ from the others")


def test_draws_of_like_clusters_at_the_mean_take_no_more_away_than_draws_of_like_clusters_beside_it() -> None:
    """Twelve of 18 alike are all that 7 draws of 10,000 have; whether that is the mean or lies a hair from it must not matter. Ten of 12 take 16 of 100."""
    at_mean, beside = (cluster_interval(np.array([0.0] * 12 + [1, 1, -1, -1, 0.5, last]), np.arange(18), 0, (-1.0, 1.0)) for last in (-0.5, -0.4999))
    assert (at_mean.low, at_mean.high) == pytest.approx((beside.low, beside.high), abs=0.01)
    assert cluster_interval(np.array([0.0] * 10 + [1, -1]), np.arange(12), 0, (-1.0, 1.0)).low is None


def test_an_interval_ends_where_a_mean_must() -> None:
    is_right = np.arange(24 * 4) % 9 > 0
    assert cluster_interval(is_right, np.arange(24 * 4) // 4, 0, (0.0, 0.9)).high == 0.9
    assert cluster_interval(is_right, np.arange(24 * 4) // 4, 0, (0.88, 1.0)).low == 0.88


def test_a_difference_is_paired_item_by_item() -> None:
    random = np.random.default_rng(4)
    base, clusters = random.random(60), [f"template {i // 3}" for i in range(60)]
    found = paired_difference((base + 0.1 * random.random(60)).tolist(), base.tolist(), clusters, seed=0)
    assert 0.03 < found.interval.low < found.mean < found.interval.high < 0.07 and found.interval.n_clusters == 20  # type: ignore[operator]
