"""Early exit: the rule against sets and loops, its pieces by hand, and the table on an atlas."""

import numpy as np
import pytest

import atlas
from atlas.papers.early_exit import CLUSTER_RULES, OTHER_RULES, dominant_sub_updates, early_exit, score, training_mask
from atlas.papers.exit_classifiers import first_exit, predict_classes
from atlas.papers.traced_arrays import Examples, read_examples
from schema.errors import AtlasError


def made(after: list[list[int]], before: list[list[int]], clusters: list[list[list[int]]], sequence: list[int] | None = None) -> Examples:
    tops = np.array(after)
    return Examples(
        np.array(sequence or range(len(after))), tops[:, -1], np.array(before), tops, np.array(clusters), np.random.default_rng(0).normal(size=(*tops.shape, 4))
    )


def random_examples(seed: int, n: int = 60, layers: int = 4, k: int = 3, n_clusters: int = 9) -> Examples:
    """Clusters that tell something of where an example saturates, so that the rule fires now and then."""
    rng = np.random.default_rng(seed)
    at = rng.integers(0, layers, n)
    after = np.where(np.arange(layers) >= at[:, None], 1, 0)
    before = np.where(np.arange(layers) > at[:, None], 1, rng.integers(0, 2, (n, layers)))
    clusters = np.stack(
        [[rng.permutation(n_clusters)[:k] if layer != at[i] else (at[i] * 2 + np.arange(k)) % n_clusters for layer in range(layers)] for i in range(n)]
    )
    return Examples(np.arange(n), np.ones(n, int), before, after, clusters, rng.normal(size=(n, layers, 5)))


def test_where_an_example_saturates_and_by_what() -> None:
    examples = made(
        after=[[7, 7, 7], [7, 5, 7], [1, 2, 7], [1, 7, 7]],
        before=[[7, 7, 7], [7, 7, 5], [1, 1, 1], [1, 7, 7]],
        clusters=[[[0]] * 3] * 4,
    )
    assert examples.saturation_layers.tolist() == [0, 2, 2, 1]
    # the first had it before its FFN, and so had the last: attention brought it
    assert examples.is_event.tolist() == [False, True, True, False]


def brute_force_rule(taught: Examples, asked: Examples, at_own_layer: bool) -> list[int]:
    """Geva et al. 2022, section 6.2, with sets and loops."""
    n_layers = taught.after.shape[1]
    events: dict[int, list[list[set[int]]]] = {layer: [] for layer in range(n_layers)}
    for i in range(len(taught.final)):
        w, tops = taught.final[i], taught.after[i]
        at = next(layer for layer in range(n_layers) if all(t == w for t in tops[layer:]))
        if taught.before[i][at] != w:
            events[at].append([set(taught.clusters[i][at if at_own_layer else layer].tolist()) for layer in range(n_layers)])
    exits = []
    for i in range(len(asked.final)):
        stop = n_layers - 1
        for layer in range(n_layers - 1):
            here = set(asked.clusters[i][layer].tolist())
            shared = {later: [len(here & e[layer]) for e in events[later]] or [0] for later in range(layer, n_layers)}
            means = {later: sum(s) / len(s) for later, s in shared.items()}
            if all(means[layer] > means[later] and max(shared[layer]) > max(shared[later]) for later in range(layer + 1, n_layers)):
                stop = layer
                break
        exits.append(stop)
    return exits


@pytest.mark.parametrize("at_own_layer", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_rule_agrees_with_sets_and_loops(seed: int, at_own_layer: bool) -> None:
    taught, asked = random_examples(seed), random_examples(seed + 100)
    found = dominant_sub_updates(taught, asked, at_own_layer=at_own_layer).tolist()
    assert found == brute_force_rule(taught, asked, at_own_layer)
    assert len(set(found)) > 1


def test_the_rule_by_hand() -> None:
    """Taught: {1, 2} saturates at layer 0, {3, 4} at layer 1, {5, 6} at the last."""
    taught = made(
        after=[[7, 7, 7], [1, 7, 7], [1, 1, 7]],
        before=[[1, 7, 7], [1, 1, 7], [1, 1, 1]],
        clusters=[[[1, 2]] * 3, [[3, 4]] * 3, [[5, 6]] * 3],
    )
    asked = made(
        after=[[7, 7, 7]] * 4,
        before=[[7, 7, 7]] * 4,
        # stops at 0; waits at 0, stops at 1; is like the last layer throughout; draws at 0 and at 1
        clusters=[[[1, 2]] * 3, [[3, 9]] * 3, [[5, 6]] * 3, [[1, 3], [3, 5], [0, 9]]],
    )
    assert dominant_sub_updates(taught, asked).tolist() == [0, 1, 2, 2]


def test_without_events_nothing_stops_early() -> None:
    silent = made(after=[[7, 7]] * 3, before=[[7, 7]] * 3, clusters=[[[1, 2]] * 2] * 3)
    assert dominant_sub_updates(silent, silent).tolist() == [1, 1, 1]


def test_first_exit_is_the_last_layer_when_none_wants_to() -> None:
    assert first_exit(np.array([[False, True, True], [False, False, False]])).tolist() == [1, 2]


def test_accuracy_and_layers_saved_by_hand() -> None:
    examples = made(after=[[7, 7, 7], [1, 7, 7]], before=[[1, 7, 7], [1, 1, 7]], clusters=[[[1]] * 3] * 2, sequence=[0, 1])
    taught = training_mask(examples, 0)
    asked_tops = examples.after[~taught][0]
    accuracy, saved = score(lambda _, asked: np.zeros(len(asked.final), int), examples, 0)
    assert (accuracy, saved) == (float(asked_tops[0] == 7), 2.0)


def test_no_sequence_is_on_both_sides() -> None:
    examples = random_examples(0)._replace(sequence=np.repeat(np.arange(12), 5))
    taught = training_mask(examples, 3)
    assert set(examples.sequence[taught]) | set(examples.sequence[~taught]) == set(range(12))
    assert not set(examples.sequence[taught]) & set(examples.sequence[~taught])
    assert taught.sum() == 30


def test_a_classifier_learns_what_can_be_learned_and_repeats_what_it_alone_was_told() -> None:
    rng = np.random.default_rng(0)
    known, unknown = rng.normal(size=(800, 4)), rng.normal(size=(400, 4))
    known[:, 3] = 1.0  # never varies, so it says nothing whatever it is later
    assert (predict_classes(known, (known[:, 0] > 0) * 1, unknown) == (unknown[:, 0] > 0)).mean() > 0.9
    assert predict_classes(known, np.full(800, 4), unknown).tolist() == [4] * 400


def test_oracle_and_never_bound_the_others() -> None:
    examples = random_examples(1)
    scores = {name: score(rule, examples, 0) for name, rule in (CLUSTER_RULES | OTHER_RULES).items()}
    assert scores["oracle"][0] == scores["never"][0] == 1.0
    assert scores["never"][1] == 0.0
    right = {name: saved for name, (accuracy, saved) in scores.items() if accuracy == 1.0}
    assert max(right.values()) == scores["oracle"][1]


def test_examples_are_those_of_the_tiny_atlas(a: atlas.Atlas) -> None:
    examples = read_examples(a, "value")
    # positions 2, 8 and 101; tests/atlas/tiny_atlas.py, LENS
    assert examples.final.tolist() == [3, 5, 6]
    assert examples.before.tolist() == [[2, 2, 10], [5, 5, 2], [7, 7, 6]]
    assert examples.after.tolist() == [[2, 3, 3], [5, 2, 5], [6, 6, 6]]
    assert examples.saturation_layers.tolist() == [1, 2, 0]
    assert examples.is_event.tolist() == [True, True, True]
    # layer grows the stream: (1, 0), (2, 0), (3, 0) for the first
    assert examples.states[0].tolist() == [[1, 0], [2, 0], [3, 0]]
    clusters = {(layer, neuron): c for layer, neuron, c in a.sql("SELECT layer, neuron, cluster FROM value_cluster WHERE space = 'value'").iter_rows()}
    assert examples.clusters.tolist() == [[[clusters[layer, 2], clusters[layer, 0]] for layer in range(3)]] * 3


def test_the_table_has_a_row_a_rule_and_kind_of_cluster(a: atlas.Atlas) -> None:
    table = early_exit(a, corpus=0)
    by_cluster = [(rule, space) for space in ("value", "logits") for rule in CLUSTER_RULES]
    assert table.select("rule", "clusters").rows() == [*by_cluster, *((rule, None) for rule in OTHER_RULES)]
    assert table["n_examples"].to_list() == [1] * len(table)
    assert table.filter(rule="never")["accuracy"].item() == 1.0


def test_a_corpus_brings_its_own_examples(a: atlas.Atlas) -> None:
    assert read_examples(a, "value", corpus=0).final.tolist() == [3, 5]
    assert read_examples(a, "logits", corpus=1).states[0].tolist() == read_examples(a, "value").states[2].tolist()


def test_an_atlas_without_a_trace_says_what_to_run(empty_path) -> None:
    with atlas.open(empty_path) as a, pytest.raises(AtlasError, match="ingest with --trace"):
        early_exit(a)


def test_traced_positions_of_one_sequence_teach_nothing(a: atlas.Atlas) -> None:
    with pytest.raises(AtlasError, match="here one alone has: trace more"):
        early_exit(a, 1)
