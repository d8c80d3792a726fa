"""Multinomial logistic regression on states, with measures that tell whether a probe reads or memorises.

Sources: control tasks and selectivity, Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks", sections 2 and 3;
online codelength, Voita and Titov 2020, "Information-Theoretic Probing with Minimum Description Length", section 3.2.

A probe with a rank is softmax regression whose weights are the product of two factors, so that it reads only a few directions of a state: one of the ways
in which Hewitt and Liang 2019 keep a probe from memorising.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from ingest.acting.bootstrap import cluster_interval

STEPS = 300
"""Most steps of a fit of weights without a limit on their rank."""

FACTORED_STEPS = 3000
"""Most steps of a fit of two factors, which needs more steps than a fit of weights: up to 550 for parts of speech in SmolLM2."""

TOLERANCE = 1e-5
"""Largest slope of the mean loss, in nats, at which a fit of factors ends."""

L2 = 30.0
"""Strength of the penalty on weights of standardised states: L2 / 2 times their squared length is added to the sum of the losses, in nats."""
SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks of the online code, as shares of the rows."""


@dataclass(frozen=True, eq=False)
class LabelledWords:
    """Words to learn from, or of a test; all arrays are [n].

    types: number of each word's written form. labels: number of its class, -1 if the class is not among those to learn. documents: its document_id.
    """

    types: np.ndarray
    labels: np.ndarray
    documents: np.ndarray


def standardise_states(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardise the states to learn from and those of the test, [n, d_model] each, by the mean and standard deviation of those to learn from; float32.

    A dimension that is constant in the states to learn from keeps its scale.
    """
    mean, std = train.mean(0, dtype=np.float64), train.std(0, dtype=np.float64)
    scale = np.where(std > 0, std, 1.0)
    return ((train - mean) / scale).astype(np.float32), ((test - mean) / scale).astype(np.float32)


def fit_class_probs(x: np.ndarray, y: np.ndarray, of: np.ndarray, n_classes: int, rank: int | None = None) -> tuple[np.ndarray, bool]:
    """Fit a probe to states x [m, d_model] and labels y [m]; return the class probabilities at states `of`, and whether the fit has converged.

    Probabilities are [n, n_classes] float64, and 0 for a class that y lacks. The intercept is not penalised. rank: the most directions of a state that the
    probe reads; None or at least the full rank sets no limit.
    """
    classes = np.unique(y)
    found = np.zeros((len(of), n_classes))
    if len(classes) == 1:
        found[:, classes] = 1
        return found, True
    probe = LogisticRegression(C=1 / L2, max_iter=STEPS)
    # on one thread sums are the same again; what it warns of is kept (is_converged), or lies in the nature of a first block
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        probe.fit(x, y)
        if rank is None or rank >= full_rank(len(classes), x.shape[1]):
            found[:, classes] = probe.predict_proba(of)
            return found, bool(probe.n_iter_.max() < STEPS)
        fit, is_converged = fit_factors(x, np.searchsorted(classes, y), L2, nearest_factors(probe.coef_, probe.intercept_, rank), FACTORED_STEPS)
        found[:, classes] = fit.probs(of)
    return found, is_converged


def block_ends(n: int) -> list[int]:
    """Compute the ends of the blocks of n rows, ascending, the first at least 1 and the last n."""
    return sorted({max(1, round(share * n)) for share in SHARES})


def codelength(x: np.ndarray, y: np.ndarray, n_classes: int, seed: int, rank: int | None = None) -> float:
    """Compute the online codelength, in bits, of the labels y [n] given the states x [n, d_model].

    The first block is coded with equal probabilities of all classes, each later block with those of a probe fitted to the rows before it. Each class counts
    as if it had occurred once more, so that a class not seen yet has a code.
    """
    order = np.random.default_rng(seed).permutation(len(y))
    x, y, ends = x[order], y[order], block_ends(len(y))
    bits = ends[0] * np.log2(n_classes)
    for end, following in pairwise(ends):
        probs, _ = fit_class_probs(x[:end], y[:end], x[end:following], n_classes, rank)
        given = probs[np.arange(following - end), y[end:following]]
        bits -= np.log2((end * given + 1) / (end + n_classes)).sum()
    return float(bits)


def control_labels(labels: np.ndarray, n_types: int, n_classes: int, seed: int) -> np.ndarray:
    """Draw a label for each type of word, [n_types], from the distribution of the labels to learn. All occurrences of a type share its label."""
    shares = np.bincount(labels, minlength=n_classes) / len(labels)
    return np.random.default_rng(seed).choice(n_classes, n_types, p=shares)


def type_guess(train: LabelledWords, test: LabelledWords, n_classes: int) -> np.ndarray:
    """Guess for each test word the most frequent label of its type or, if the type is unseen, of all words, [n]; ties go to the first class."""
    n_types = int(max(train.types.max(), test.types.max())) + 1
    counts = np.zeros((n_types, n_classes), np.int64)
    np.add.at(counts, (train.types, train.labels), 1)
    guess = np.where(counts.any(1), counts.argmax(1), counts.sum(0).argmax())
    return guess[test.types]


def evaluate_probe(
    states: tuple[np.ndarray, np.ndarray], train: LabelledWords, test: LabelledWords, n_classes: int, seed: int, rank: int | None = None
) -> tuple[dict[str, object], np.ndarray]:
    """Fit a probe; return the numbers of its row of `probe`, and the class probabilities for each word of the test, [n, n_classes].

    states: those of the words to learn from, and those of the test, [·, d_model] each. rank: as in `fit_class_probs`.
    """
    x, of = standardise_states(*states)
    probs, is_converged = fit_class_probs(x, train.labels, of, n_classes, rank)
    is_right = probs.argmax(1) == test.labels
    found = cluster_interval(is_right, test.documents, seed, (0.0, 1.0))
    is_unseen = ~np.isin(test.types, train.types)
    row: dict[str, object] = {
        "accuracy": float(is_right.mean()), "accuracy_low": found.low, "accuracy_high": found.high, "n_clusters": found.n_clusters,
        "interval_note": found.note,
        "unseen_accuracy": float(is_right[is_unseen].mean()) if is_unseen.any() else None,
        "codelength": codelength(x, train.labels, n_classes, seed, rank), "is_converged": is_converged,
        "rank": min(rank or x.shape[1], full_rank(n_classes, x.shape[1])),
    }  # fmt: skip
    return row, probs


@dataclass(frozen=True, eq=False)
class FactoredWeights:
    """Weights `out @ into`: out [n_classes, rank], into [rank, d_model]; intercept [n_classes]; all float64."""

    out: np.ndarray
    into: np.ndarray
    intercept: np.ndarray

    def logits(self, x: np.ndarray) -> np.ndarray:
        """Compute the logits of x [n, d_model], [n, n_classes] float64. The product with `into` has the precision of x."""
        return directions(x, self.into) @ self.out.T + self.intercept

    def probs(self, x: np.ndarray) -> np.ndarray:
        found: np.ndarray = softmax(self.logits(x), axis=1)
        return found

    def flat(self) -> np.ndarray:
        return np.concatenate([self.out.ravel(), self.into.ravel(), self.intercept])

    def unflatten(self, flat: np.ndarray) -> "FactoredWeights":
        out, into, intercept = np.split(flat, np.cumsum([self.out.size, self.into.size]))
        return FactoredWeights(out.reshape(self.out.shape), into.reshape(self.into.shape), intercept)


def directions(x: np.ndarray, into: np.ndarray) -> np.ndarray:
    return (x @ into.T.astype(x.dtype)).astype(np.float64)


def full_rank(n_classes: int, d_model: int) -> int:
    """Return the rank of unrestricted weights.

    Adding one number to the logits of all classes changes no probability, so one class needs no direction.
    """
    return max(1, min(n_classes - 1, d_model))


def nearest_factors(weights: np.ndarray, intercept: np.ndarray, rank: int) -> FactoredWeights:
    """Compute the factors whose product is nearest to unrestricted weights [n_classes, d_model]."""
    left, sizes, right = np.linalg.svd(weights.astype(np.float64), full_matrices=False)
    halves = np.sqrt(sizes[:rank])
    return FactoredWeights(left[:, :rank] * halves, halves[:, None] * right[:rank], intercept.astype(np.float64))


def objective(x: np.ndarray, y: np.ndarray, l2: float, shape: FactoredWeights) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Build the function that maps flat factors to the loss and its gradient.

    The loss is the mean negative log-probability of labels y [n] at states x [n, d_model], plus l2 / (2·n) times the squared length of the factors' product.
    """
    n, rows = len(y), np.arange(len(y))

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        now = shape.unflatten(flat)
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
    """Minimise the loss of the factors from `start` on; return the factors, and whether this took fewer than `steps` steps.

    y: [n], its classes numbered from 0.
    """
    found = minimize(objective(x, y, l2, start), start.flat(), jac=True, method="L-BFGS-B", options={"maxiter": steps, "gtol": TOLERANCE, "ftol": 0})
    return start.unflatten(found.x), bool(found.nit < steps)
