"""Early exit from the FFN's dominant sub-updates (Geva et al. 2022, section 6.2 and table 6), beside classifiers that learn when to stop.

Every traced position is an example. Half of the sequences, drawn by seed, are for training; the examples of the other half are predicted.
A prediction at layer l is the top token at resid_post of l; exiting there saves the n_layers - 1 - l layers above.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from atlas.cursors import fetch_rows
from atlas.papers.exit_classifiers import CLUSTER_CLASSIFIERS, STATE_CLASSIFIERS, first_exit, indicator
from atlas.papers.traced_arrays import Examples, read_examples
from schema.errors import AtlasError
from schema.terms import CLUSTER_SPACES

if TYPE_CHECKING:
    from atlas.api import Atlas

SEEDS = 5

ONE_CORPUS = "SELECT o.corpus_id FROM one_corpus((SELECT list(DISTINCT t.corpus_id) FROM traced_position AS t), corpus := $corpus) AS o"

Rule = Callable[[Examples, Examples], np.ndarray]
"""Rule of early exit: (training examples, test examples) → exit layer of each test example, [n]."""


def early_exit(a: "Atlas", corpus: int | None = None) -> pl.DataFrame:
    """Measure the accuracy and the layers saved of each rule: mean and standard deviation over SEEDS splits.

    corpus: one corpus_id; None takes the only one that is traced.
    Columns: rule; clusters (what stands for the sub-updates: clusters of the values or of their logits, null if the rule does not use them); accuracy (share of
    predictions that are the model's final one); accuracy_std; saved_layers; saved_layers_std; saved_share (of all layers); n_examples (predicted in a split).
    Raises AtlasError if nothing is traced, if only one sequence is, if several corpora are and none is named, or if the values were not clustered.
    """
    corpus = fetch_rows(a.con, ONE_CORPUS, {"corpus": corpus})[0][0]
    spaces = {space: read_examples(a, space, corpus) for space in CLUSTER_SPACES}
    if len(np.unique(spaces["value"].sequence)) < 2:
        raise AtlasError("early exit learns from half of the sequences that have traced positions, and here one alone has: trace more with --trace")
    by_cluster = [row(name, space, rule, examples) for space, examples in spaces.items() for name, rule in CLUSTER_RULES.items()]
    return pl.DataFrame([*by_cluster, *(row(name, None, rule, spaces["value"]) for name, rule in OTHER_RULES.items())], infer_schema_length=None)


def row(name: str, space: str | None, rule: Rule, examples: Examples) -> dict[str, object]:
    accuracy, saved = np.array([score(rule, examples, seed) for seed in range(SEEDS)]).T
    return {
        "rule": name, "clusters": space, "accuracy": accuracy.mean(), "accuracy_std": accuracy.std(ddof=1), "saved_layers": saved.mean(),
        "saved_layers_std": saved.std(ddof=1), "saved_share": saved.mean() / examples.n_layers, "n_examples": int((~training_mask(examples, 0)).sum()),
    }  # fmt: skip


def training_mask(examples: Examples, seed: int) -> np.ndarray:
    """Choose the training examples, those of half the sequences, as a mask, [n]. Sequences stay whole, so that no text is on both sides."""
    sequences = np.unique(examples.sequence)
    taught = np.random.default_rng(seed).permutation(sequences)[: len(sequences) // 2]
    return np.isin(examples.sequence, taught)


def score(rule: Rule, examples: Examples, seed: int) -> tuple[float, float]:
    """Measure the accuracy and the mean layers saved of a rule that is trained on one half and tested on the other."""
    taught = training_mask(examples, seed)
    asked = examples.select_rows(~taught)
    exits = rule(examples.select_rows(taught), asked)
    predicted = np.take_along_axis(asked.after, exits[:, None], 1)[:, 0]
    return float((predicted == asked.final).mean()), float((examples.n_layers - 1 - exits).mean())


def dominant_sub_updates(taught: Examples, asked: Examples, *, at_own_layer: bool = False) -> np.ndarray:
    """Choose the exit layers by the paper's rule.

    An example exits at l if the clusters of its dominant values at l overlap more with the training events that saturate at l than with those that saturate at
    any later layer, both on average and at most.
    The overlap is with an event's dominant values at l, or, with at_own_layer, with those at the layer where the event saturates. The paper can be read either
    way. Clusters seldom span layers, so that under the second reading any text is nearest to the events of the layer at which it is tested.
    """
    events = taught.select_rows(taught.is_event)
    at = events.saturation_layers
    wants = np.zeros(asked.after.shape, bool)
    for layer in range(asked.n_layers - 1):
        known = [events.clusters[at == later, later if at_own_layer else layer] for later in range(layer, asked.n_layers)]
        (mean, most), *rest = (overlap(asked.clusters[:, layer], clusters) for clusters in known)
        wants[:, layer] = np.all([(mean > m) & (most > x) for m, x in rest], axis=0)
    return first_exit(wants)


def overlap(asked: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean and the largest number of clusters that each row of asked [n, k] shares with the rows of events [m, k]; both are 0 without events."""
    if not len(events):
        return np.zeros(len(asked)), np.zeros(len(asked))
    n_clusters = int(max(asked.max(), events.max())) + 1
    shared = indicator(asked, n_clusters) @ indicator(events, n_clusters).T
    return shared.mean(1), shared.max(1)


CLUSTER_RULES: dict[str, Rule] = {
    "dominant sub-updates": dominant_sub_updates,
    "dominant sub-updates, events at their own layer": partial(dominant_sub_updates, at_own_layer=True),
    **CLUSTER_CLASSIFIERS,
}
OTHER_RULES: dict[str, Rule] = {
    **STATE_CLASSIFIERS,
    "oracle": lambda _, asked: asked.saturation_layers,
    "never": lambda _, asked: np.full(len(asked.final), asked.n_layers - 1),
}
"""Name → rule; the oracle knows where each example saturates."""
