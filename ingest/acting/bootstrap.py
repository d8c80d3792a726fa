"""How far an arm moves a score, with an interval that says how much the choice of templates matters."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from schema.errors import AtlasError

N_DRAWS = 10_000


@dataclass(frozen=True)
class Difference:
    """In the units of the scores; low and high hold 95% of the draws between them."""

    mean: float
    low: float
    high: float


def paired_difference(scores: Sequence[float], base: Sequence[float], clusters: Sequence[Hashable], seed: int) -> Difference:
    """Mean of scores - base, item by item, with the percentile interval of drawing clusters, with replacement, as many as there are.

    A cluster is what items have in common, as a template of prompts: ten prompts of one are about one observation. Raises AtlasError for lists of several
    lengths and for fewer than two clusters.
    """
    if not len(scores) == len(base) == len(clusters):
        raise AtlasError(f"{len(scores)} scores, {len(base)} of the base and {len(clusters)} clusters were given; each score needs one of both")
    names = sorted({*clusters}, key=repr)
    if len(names) < 2:
        raise AtlasError(f"{len(names)} cluster was given; an interval over clusters needs two at least")
    difference = np.asarray(scores, dtype=np.float64) - np.asarray(base, dtype=np.float64)
    place = {name: i for i, name in enumerate(names)}
    of = np.array([place[cluster] for cluster in clusters])
    sums, counts = np.bincount(of, weights=difference), np.bincount(of)
    drawn = np.random.default_rng(seed).integers(len(names), size=(N_DRAWS, len(names)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [0.025, 0.975])
    return Difference(float(difference.mean()), float(low), float(high))
