"""Softmax regression whose weights are the product of two factors: a probe that reads no more than a few directions of a state.

Source: Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks", where it is one of the ways to keep a probe from memorising.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

STEPS = 3000
"""Two factors take more than weights do: SmolLM2's parts of speech up to 550."""

TOLERANCE = 1e-5
"""Of the largest slope of the mean loss at the end, in nats."""


@dataclass(frozen=True, eq=False)
class FactoredWeights:
    """Weights `out @ into`: out [n_classes, rank], into [rank, d_model]; intercept [n_classes]; all float64."""

    out: np.ndarray
    into: np.ndarray
    intercept: np.ndarray

    def logits(self, x: np.ndarray) -> np.ndarray:
        """x: [n, d_model], read in its own precision; [n, n_classes] float64."""
        return directions(x, self.into) @ self.out.T + self.intercept

    def probs(self, x: np.ndarray) -> np.ndarray:
        found: np.ndarray = softmax(self.logits(x), axis=1)
        return found

    def flat(self) -> np.ndarray:
        return np.concatenate([self.out.ravel(), self.into.ravel(), self.intercept])

    def from_flat(self, flat: np.ndarray) -> "FactoredWeights":
        out, into, intercept = np.split(flat, np.cumsum([self.out.size, self.into.size]))
        return FactoredWeights(out.reshape(self.out.shape), into.reshape(self.into.shape), intercept)


def directions(x: np.ndarray, into: np.ndarray) -> np.ndarray:
    return (x @ into.T.astype(x.dtype)).astype(np.float64)


def full_rank(n_classes: int, d_model: int) -> int:
    """Of weights that nothing restricts: adding the same to the logits of all classes changes no probability, so that one class needs no direction."""
    return max(1, min(n_classes - 1, d_model))


def nearest_factors(weights: np.ndarray, intercept: np.ndarray, rank: int) -> FactoredWeights:
    """Compute the factors whose product is nearest to unrestricted weights [n_classes, d_model]."""
    left, sizes, right = np.linalg.svd(weights.astype(np.float64), full_matrices=False)
    halves = np.sqrt(sizes[:rank])
    return FactoredWeights(left[:, :rank] * halves, halves[:, None] * right[:rank], intercept.astype(np.float64))


def objective(x: np.ndarray, y: np.ndarray, l2: float, shape: FactoredWeights) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Mean loss of labels y [n] at x [n, d_model], with l2 / 2 times the squared length of the product over n, and its slope, of flat factors."""
    n, rows = len(y), np.arange(len(y))

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        now = shape.from_flat(flat)
        read = directions(x, now.into)
        logprobs = log_softmax(read @ now.out.T + now.intercept, axis=1)
        slope = np.exp(logprobs)
        slope[rows, y] -= 1
        outs, intos = now.out.T @ now.out, now.into @ now.into.T
        into = (x.T @ (slope @ now.out).astype(x.dtype)).T.astype(np.float64)
        slopes = FactoredWeights(slope.T @ read + l2 * now.out @ intos, into + l2 * outs @ now.into, slope.sum(0))
        return (l2 / 2 * float((outs * intos).sum()) - float(logprobs[rows, y].sum())) / n, slopes.flat() / n

    return value


def fit_factors(x: np.ndarray, y: np.ndarray, l2: float, start: FactoredWeights, steps: int) -> tuple[FactoredWeights, bool]:
    """Find the factors that learn best from `start` on, and whether this took fewer than `steps` steps. y: [n], each class of it numbered from 0."""
    found = minimize(objective(x, y, l2, start), start.flat(), jac=True, method="L-BFGS-B", options={"maxiter": steps, "gtol": TOLERANCE, "ftol": 0})
    return start.from_flat(found.x), bool(found.nit < steps)
