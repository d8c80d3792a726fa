"""Predictions of neighbours, and their mixture with the model's predictions (Khandelwal et al. 2020, equations 2 and 3), in float64."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from atlas.beside.retrieval.search import Neighbours
from schema.errors import AtlasError

KS = (8, 64, 256, 1024)
TEMPERATURES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Temperatures that are tried, in units of the median distance to the nearest entry: distances grow with d_model and the norm's gain."""

WEIGHTS = np.arange(21) / 20
"""Weights λ of the mixture that are tried."""


@dataclass(frozen=True)
class Choice:
    """Number of neighbours, temperature and weight λ of the mixture, and their perplexity on the text they were chosen on."""

    k: int
    temperature: float
    weight: float
    perplexity: float


class Shares(NamedTuple):
    """Predictions of each query's neighbours at one k and temperature, [n] each; names as in the table knn_prediction."""

    next_token_prob: np.ndarray
    top_token_id: np.ndarray
    top_prob: np.ndarray
    entropy: np.ndarray
    n_tokens: np.ndarray
    log_normaliser: np.ndarray


def median_nearest(found: Neighbours) -> float:
    """Compute the median over the queries of the distance to the nearest entry. Raises AtlasError if it is 0, or a query has no neighbour."""
    nearest = found.distances[:, 0].astype(np.float64)
    if not np.isfinite(nearest).all():
        raise AtlasError(
            f"{int(np.isinf(nearest).sum())} of {len(nearest)} queries have no neighbour: "
            f"all entries of the store come from the query's own text, which does not count"
        )
    if not (median := float(np.median(nearest))):
        raise AtlasError("the median distance to the nearest entry is 0: half of the queries are copies of entries, so these texts say nothing about retrieval")
    return median


def parameter_grid(most: int, median: float) -> list[tuple[int, float]]:
    """Pair every k up to `most` with every temperature; `median` is the unit of temperature."""
    return [(k, step * median) for k in sorted({*(k for k in KS if k < most), most}) for step in TEMPERATURES]


def shares(found: Neighbours, next_token_ids: np.ndarray, settings: Sequence[tuple[int, float]]) -> list[Shares]:
    """Compute p_kNN for each k and temperature T: the nearest k have weights exp(-distance / T), summed over neighbours with the same next token."""
    each = zip(found.distances, found.next_token_ids, next_token_ids, strict=True)
    rows = [query_shares(distances, tokens, following, settings) for distances, tokens, following in each]
    columns = np.array(rows, np.float64).reshape(len(rows), len(settings), len(Shares._fields))
    return [Shares(*columns[:, i].T) for i in range(len(settings))]


def query_shares(distances: np.ndarray, tokens: np.ndarray, following: int, settings: Sequence[tuple[int, float]]) -> list[tuple[float, ...]]:
    """Compute one query's row of `Shares` for each k and temperature."""
    exact, nearest = distances.astype(np.float64), float(distances[0])
    named, places = np.unique(tokens, return_inverse=True)
    found: list[tuple[float, ...]] = []
    for k, temperature in settings:
        weights = np.exp((nearest - exact[:k]) / temperature)
        total = weights.sum()
        sums = np.bincount(places[:k], weights / total, len(named))
        present, top = sums[sums > 0], int(sums.argmax())
        at = np.searchsorted(named, following)
        is_named = at < len(named) and named[at] == following
        n_tokens = len(np.unique(places[:k][np.isfinite(exact[:k])]))
        found.append(
            (sums[at] if is_named else 0.0, named[top], sums[top], -(present * np.log(present)).sum(), n_tokens, np.log(total) - nearest / temperature)
        )
    return found


def perplexities(surprisals: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Compute exp(mean -ln((1 - λ)·p_LM + λ·p_kNN)) for every λ of WEIGHTS, [21]; infinite if a token has probability 0 in the mixture."""
    with np.errstate(divide="ignore"):
        mixed = np.log((1 - WEIGHTS[:, None]) * np.exp(-surprisals.astype(np.float64)) + WEIGHTS[:, None] * probs)
    return np.exp(-mixed.mean(1))


def choose(surprisals: np.ndarray, found: Sequence[Shares], settings: Sequence[tuple[int, float]]) -> Choice:
    """Choose the k, temperature and weight with the smallest perplexity; ties go to the smaller weight, then k, then temperature."""
    scores = np.stack([perplexities(surprisals, each.next_token_prob) for each in found])
    return min(
        (Choice(k, temperature, float(weight), float(scores[i, j])) for i, (k, temperature) in enumerate(settings) for j, weight in enumerate(WEIGHTS)),
        key=lambda choice: (choice.perplexity, choice.weight, choice.k, choice.temperature),
    )
