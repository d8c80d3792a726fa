"""Vectors placed in the plane: UMAP (McInnes et al. 2018) over exact nearest neighbours by cosine, from a start that is no accident.

The neighbours are exact and the start is the plane of the principal components, so that chance has a part only in the seeded descent:
the same vectors and seed give the same bytes on one machine, and global structure does not hang on the seed (Kobak and Linderman 2021).
"""

import warnings
from collections.abc import Callable

import numpy as np
from torch import Tensor
from torch.nn.functional import normalize

EPOCHS = 300
"""Rounds of the descent: between the library's 500 for few points and 200 for many."""

LEAST = 3
"""Fewer points have no neighbours to speak of, and stay where they start."""

WIDTH = 10.0
"""Extent of the start: that of the library's own."""

NOISE, ROUNDING = 1e-4, 1e-9


def place_points(indices: np.ndarray, cosines: np.ndarray, start: np.ndarray, seed: int) -> np.ndarray:
    """Coordinates, [n, 2] float32. indices, cosines: the nearest others of each point, nearest first, [n, k]; start: [n, 2]."""
    n = len(start)
    if n < LEAST:
        return start.astype(np.float32)
    # imported here: it takes seconds, and most runs make no map
    from umap import UMAP

    # as the library does to a start of its own: points that begin as one could not be told apart
    noise = np.random.default_rng(seed % 2**32).normal(scale=NOISE, size=start.shape)
    k = min(indices.shape[1], n - 2)
    itself = np.arange(n)[:, None]
    neighbours = np.hstack([itself, indices[:, :k]]).astype(np.int32)
    apart = np.hstack([np.zeros((n, 1)), np.clip(1 - cosines[:, :k], 0, 2)]).astype(np.float32)
    reducer = UMAP(
        n_neighbors=k + 1, metric="cosine", n_epochs=EPOCHS, random_state=seed % 2**32, n_jobs=1, init=(start + noise).astype(np.float32),
        precomputed_knn=(neighbours, apart), disconnection_distance=np.inf,
    )  # fmt: skip
    with warnings.catch_warnings(action="ignore"):  # that new points cannot be placed later: none are
        # the neighbours are all that it needs of the vectors
        return np.asarray(reducer.fit_transform(np.zeros((n, 1), np.float32)), np.float32)


def principal(part: Callable[[int], Tensor], n_parts: int) -> np.ndarray:
    """Where vectors lie in the plane of their two principal components, their lengths set to 1: [n, 2]. part: gives the vectors [m, d] by number."""
    n, total, gram = 0, np.zeros(()), np.zeros(())
    for i in range(n_parts):
        units = unit(part(i))
        n, total, gram = n + len(units), total + units.sum(0), gram + units.T @ units
    mean = total / n
    axes = np.linalg.eigh(gram / n - np.outer(mean, mean))[1][:, :-3:-1]
    # an eigenvector has no sign of its own
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
    start = np.concatenate([(unit(part(i)) - mean) @ axes for i in range(n_parts)])
    extent = np.abs(start).max()
    # vectors that are all one differ by rounding alone
    return start * (WIDTH / extent) if extent > ROUNDING else np.zeros_like(start)


def unit(vectors: Tensor) -> np.ndarray:
    """Each divided by its length, in double precision; one of length 0 stays."""
    return normalize(vectors.double(), dim=1).cpu().numpy()
