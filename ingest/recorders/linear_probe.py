"""Multinomial logistic regression on states, beside what tells whether it reads or memorises.

Sources: control tasks and selectivity, Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks", sections 2 and 3;
online codelength, Voita and Titov 2020, "Information-Theoretic Probing with Minimum Description Length", section 3.2.
"""

import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from ingest.acting.bootstrap import cluster_interval
from ingest.recorders.low_rank import STEPS as FACTORED_STEPS
from ingest.recorders.low_rank import fit_factors, full_rank, nearest_factors

L2 = 30.0
"""Of standardised states: this times half the squared length of the weights is added to the sum of the losses in nats."""
STEPS = 300
SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks of the online code."""


@dataclass(frozen=True, eq=False)
class LabelledWords:
    """Words to learn from, or of a test: all [n]. types: what is written, numbered. labels: numbered by the classes to learn; -1 where it is none of them."""

    types: np.ndarray
    labels: np.ndarray
    documents: np.ndarray


def standardise_states(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States [n, d_model] less the mean of those to learn from, over their standard deviation, float32; a dimension that is constant there keeps its scale."""
    mean, std = train.mean(0, dtype=np.float64), train.std(0, dtype=np.float64)
    scale = np.where(std > 0, std, 1.0)
    return ((train - mean) / scale).astype(np.float32), ((test - mean) / scale).astype(np.float32)


def fit_class_probs(x: np.ndarray, y: np.ndarray, of: np.ndarray, n_classes: int, rank: int | None = None) -> tuple[np.ndarray, bool]:
    """Probabilities of each class at states `of`, [n, n_classes] float64, learned from x [m, d_model] and y [m]; and whether the fit has converged.

    A class that y lacks has none. The intercept is not penalised. rank: most directions of a state that are read; None, or as many as there can be, does
    not restrict them.
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
    """Bits of the labels y [n] given the states x [n, d_model]: of the first block in a code in which all classes are alike, of each later one by a probe of
    the rows before it. A class counts once more than it is there, so that one not seen yet has a code."""
    order = np.random.default_rng(seed).permutation(len(y))
    x, y, ends = x[order], y[order], block_ends(len(y))
    bits = ends[0] * np.log2(n_classes)
    for end, following in pairwise(ends):
        probs, _ = fit_class_probs(x[:end], y[:end], x[end:following], n_classes, rank)
        given = probs[np.arange(following - end), y[end:following]]
        bits -= np.log2((end * given + 1) / (end + n_classes)).sum()
    return float(bits)


def control_labels(labels: np.ndarray, n_types: int, n_classes: int, seed: int) -> np.ndarray:
    """Draw a label for each type of word, [n_types], once from the distribution of the labels to learn: the same wherever the type stands."""
    shares = np.bincount(labels, minlength=n_classes) / len(labels)
    return np.random.default_rng(seed).choice(n_classes, n_types, p=shares)


def type_guess(train: LabelledWords, test: LabelledWords, n_classes: int) -> np.ndarray:
    """Guess the most frequent label of each test word's type, of an unseen one the most frequent of all, ties to the first class: [n]."""
    n_types = int(max(train.types.max(), test.types.max())) + 1
    counts = np.zeros((n_types, n_classes), np.int64)
    np.add.at(counts, (train.types, train.labels), 1)
    guess = np.where(counts.any(1), counts.argmax(1), counts.sum(0).argmax())
    return guess[test.types]


def evaluate_probe(
    states: tuple[np.ndarray, np.ndarray], train: LabelledWords, test: LabelledWords, n_classes: int, seed: int, rank: int | None = None
) -> tuple[dict[str, object], np.ndarray]:
    """Fit a probe, and compute the numbers of its row of `probe` and the probabilities of the classes for each word of the test, [n, n_classes].

    states: of the words to learn from and of the test, [·, d_model]. rank: as in `fit_class_probs`.
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
