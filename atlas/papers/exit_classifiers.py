"""Classifiers that learn at which layer to stop: the baselines of early exit (Geva et al. 2022, table 6).

One logistic regression a layer, on standardised features of that layer; if all its training examples have one class, it always predicts that class.
"""

from collections.abc import Callable

import numpy as np

from atlas.papers.traced_arrays import Examples

STRENGTH = 0.01
"""Inverse of the penalty's weight: scikit-learn's own 1.0 does not converge on so few examples.

Of 1, 0.1 and 0.01, this value has the most accurate classifiers of states on the reference atlas, judged on the examples that table 6 reports: it favours these
baselines, and no third set confirmed it."""

ITERATIONS = 1000


def first_exit(wants: np.ndarray) -> np.ndarray:
    """Find the first layer at which each example wants to stop, or the last layer if it never does: [n, L] bool → [n]."""
    return np.where(wants.any(1), wants.argmax(1), wants.shape[1] - 1)


def indicator(clusters: np.ndarray, n_clusters: int) -> np.ndarray:
    """Encode cluster numbers: [n, k] → [n, n_clusters], 1 where the cluster is among them."""
    found = np.zeros((len(clusters), n_clusters), np.float32)
    np.put_along_axis(found, clusters, 1, 1)
    return found


def states(examples: Examples, layer: int, _: int) -> np.ndarray:
    return examples.states[:, layer]


def clusters(examples: Examples, layer: int, n_clusters: int) -> np.ndarray:
    return indicator(examples.clusters[:, layer], n_clusters)


def exits(
    taught: Examples, asked: Examples, features: Callable[[Examples, int, int], np.ndarray], target: Callable[[np.ndarray, int], np.ndarray]
) -> np.ndarray:
    """Find where each example exits: at the first layer whose classifier says that the prediction has saturated by then.

    features: function of examples, a layer and the number of clusters → [n, ·].
    target: function of saturation layers and a layer → classes; a class <= layer means stop.
    """
    n_clusters = int(max(taught.clusters.max(), asked.clusters.max())) + 1
    wants = np.zeros(asked.after.shape, bool)
    for layer in range(asked.n_layers - 1):
        known, unknown = features(taught, layer, n_clusters), features(asked, layer, n_clusters)
        wants[:, layer] = predict_classes(known, target(taught.saturation_layers, layer), unknown) <= layer
    return first_exit(wants)


def predict_classes(known: np.ndarray, classes: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    """Predict the class of each row of unknown [m, f] with a classifier fitted to the rows of known [n, f]."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    if len(np.unique(classes)) == 1:
        return np.full(len(unknown), classes[0])
    # a feature that never varies can teach nothing, and of thousands of clusters most never do
    varies = known.min(0) < known.max(0)
    # on matrices so small, threads wait for each other: thirty times the time of one
    with threadpool_limits(1):
        learned = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=ITERATIONS)).fit(known[:, varies], classes)
        return learned.predict(unknown[:, varies])


def binary_target(saturated_at: np.ndarray, layer: int) -> np.ndarray:
    """Label each example with `layer` if it has saturated by then, else with the next layer."""
    return np.where(saturated_at <= layer, layer, layer + 1)


def layer_target(saturated_at: np.ndarray, _: int) -> np.ndarray:
    """Label each example with the layer where it saturates: one class a layer."""
    return saturated_at


CLUSTER_CLASSIFIERS: dict[str, Callable[[Examples, Examples], np.ndarray]] = {
    "binary classifiers of dominant sub-updates": lambda taught, asked: exits(taught, asked, clusters, binary_target),
}
STATE_CLASSIFIERS: dict[str, Callable[[Examples, Examples], np.ndarray]] = {
    "binary classifiers of residual states": lambda taught, asked: exits(taught, asked, states, binary_target),
    "multiclass classifiers of residual states": lambda taught, asked: exits(taught, asked, states, layer_target),
}
