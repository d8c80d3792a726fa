"""Rows of the tables of structural probes: of a target's probes at one place of the stream, and of the target itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from ingest.acting.bootstrap import cluster_interval
from ingest.model.models import Model
from ingest.recorders.linear_probe import standardise_states
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.structural_probe import BATCH, fit_probe, predict_squares, timed_step
from ingest.recorders.tree_scores import (
    depth_correlation,
    distance_correlation,
    found_edges,
    over_lengths,
    renumber_heads,
    spanning_tree,
)
from ingest.recorders.word_states import Place, WordStates, places, states_of
from ingest.request import Request
from ingest.store.committer import work_folder
from ingest.text.parsed import Parsed, ParsedText, depths, parsed_text, tree_distances
from ingest.text.probed_words import MOST_WORDS, chosen_layers, chosen_ranks
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.errors import AtlasError
from schema.terms import TREE_KINDS, TREE_TARGETS

EDGE = pa.schema(
    [
        ("run_id", pa.int32()),
        ("layer", pa.int16()),
        ("site", pa.string()),
        ("word_id", pa.int64()),
        ("joined_word_id", pa.int64()),
        ("distance", pa.float32()),
    ]
)


@dataclass(frozen=True, eq=False)
class Trees:
    """Sentences with whole trees, to learn from and of the test. n_left_out: sentences without a whole tree, too long, of one word, or not in one sequence."""

    train: list[Parsed]
    test: list[Parsed]
    n_left_out: int


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores on the sentences of the test.

    is_right, documents: one entry for each edge of the trees (distance), or for each sentence (depth). correlation: None if no sentence has a length that
    counts (`over_lengths`).
    """

    is_right: np.ndarray
    documents: np.ndarray
    correlation: float | None


def trees(text: ParsedText) -> Trees:
    """Select the sentences of at least two words that have a whole tree."""
    found = [s for s in text.sentences if len(s) > 1 and s.is_tree]
    n_left_out = text.n_left_out + len(text.sentences) - len(found)
    return Trees([s for s in found if not s.is_test], [s for s in found if s.is_test], n_left_out)


def gold(sentence: Parsed, target: str) -> np.ndarray:
    return tree_distances(sentence.heads) if target == "distance" else depths(sentence.heads)


def word_spanning_tree(sentence: Parsed, distances: np.ndarray) -> np.ndarray:
    """Build the spanning tree of the words that are not punctuation, in the form of `spanning_tree`."""
    heads, is_word = renumber_heads(sentence.heads, sentence.is_punctuation), ~sentence.is_punctuation
    start = int((sentence.heads[is_word] < 0).argmax()) if len(heads) else 0
    return spanning_tree(distances[np.ix_(is_word, is_word)], start) if len(heads) else heads


def scores(sentences: Sequence[Parsed], found: Sequence[np.ndarray], target: str) -> Scores:
    """Score found distances or depths against the trees of sentences. found: distances [n, n] or depths [n] of each sentence, on any scale."""
    of = {"distance": (edges_right, distance_correlation), "depth": (root_right, depth_correlation)}[target]
    is_right = [of[0](s, x) for s, x in zip(sentences, found, strict=True)]
    correlations = [of[1](x, gold(s, target)) for s, x in zip(sentences, found, strict=True)]
    documents = np.repeat([s.document_id for s in sentences], [len(right) for right in is_right])
    return Scores(np.concatenate([np.zeros(0, bool), *is_right]), documents, over_lengths(correlations, [len(s) for s in sentences]))


def edges_right(sentence: Parsed, distances: np.ndarray) -> np.ndarray:
    """Tell, for each edge of the parse between words that are not punctuation, whether the spanning tree has it."""
    return found_edges(renumber_heads(sentence.heads, sentence.is_punctuation), word_spanning_tree(sentence, distances))


def root_right(sentence: Parsed, depth: np.ndarray) -> np.ndarray:
    """Tell whether the word of least depth that is not punctuation is the root, [1]."""
    at = np.where(sentence.is_punctuation, np.inf, depth).argmin()
    return np.array([sentence.heads[at] < 0])


def chain(sentence: Parsed, target: str) -> np.ndarray:
    """Compute the distances or depths of a chain, which need no state: neighbours are joined, and each word is one edge below the word before it."""
    place = np.arange(len(sentence), dtype=np.float64)
    return np.abs(place[:, None] - place) if target == "distance" else place


def task_row(run_id: int, corpus_id: int, of: Trees, target: str) -> pa.Table:
    """Build the row of `tree_task`."""
    said = scores(of.test, [chain(s, target) for s in of.test], target)
    row = {
        "run_id": run_id, "target": target, "corpus_id": corpus_id, "n_train": len(of.train), "n_test": len(of.test), "n_left_out": of.n_left_out,
        "n_train_documents": len({s.document_id for s in of.train}), "n_test_documents": len({s.document_id for s in of.test}),
        "n_train_words": sum(map(len, of.train)), "n_test_words": sum(map(len, of.test)), "n_scored": len(said.is_right),
        "chain_accuracy": float(said.is_right.mean()), "chain_spearman": said.correlation,
    }  # fmt: skip
    return pa.Table.from_pylist(
        [row], pa.schema([(name, pa.float64() if "chain" in name else pa.string() if name == "target" else pa.int64()) for name in row])
    )


def tree_tables(
    run_id: int, of: Trees, target: str, place: Place, states: Mapping[str, WordStates], ranks: Sequence[int], seed: int
) -> Tables:  # fmt: skip
    """Compute the rows of `tree_probe`, and of `tree_edge` if the target is distance. states: those for each of TREE_KINDS; ranks: ascending."""
    rows, edges = [], EDGE.empty_table()
    learn = [gold(s, target) for s in of.train]
    for kind in TREE_KINDS:
        train, test = split_states(states[kind], place, of)
        for rank in ranks:
            weights, n_epochs = fit_probe(train, learn, target, rank, seed)
            found = [predict_squares(weights, each, target) for each in test]
            said = scores(of.test, found, target)
            interval = cluster_interval(said.is_right, said.documents, seed, (0.0, 1.0))
            rows.append(
                {
                    "run_id": run_id, "target": target, "kind": kind, "layer": place[0], "site": place[1], "rank": rank,
                    "accuracy": float(said.is_right.mean()), "accuracy_low": interval.low, "accuracy_high": interval.high,
                    "n_clusters": interval.n_clusters, "interval_note": interval.note, "spearman": said.correlation, "n_epochs": n_epochs,
                }
            )  # fmt: skip
        if kind == "tree" and target == "distance":
            edges = edge_rows(run_id, place, of.test, found)
    return {"tree_probe": pa.Table.from_pylist(rows), "tree_edge": edges}


def split_states(states: WordStates, place: Place, of: Trees) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Scale all states to length one, standardise them by those to learn from, and split them by sentence, [n, d_model] each."""
    parts = [np.concatenate([s.last for s in part]) for part in (of.train, of.test)]
    both = standardise_states(*(of_length_one(states.states_at(place, positions)) for positions in parts))
    return tuple(np.split(x, np.cumsum([len(s) for s in part])[:-1]) for x, part in zip(both, (of.train, of.test), strict=True))  # type: ignore[return-value]


def of_length_one(states: np.ndarray) -> np.ndarray:
    """Scale states [n, d_model] to length one, as a block's norm reads them; a state of zeros stays as it is.

    A few states are many times as long as the others, and would otherwise set the scale.
    """
    lengths = np.linalg.norm(states, axis=1, keepdims=True)
    return np.divide(states, lengths, out=np.zeros_like(states), where=lengths > 0)


def edge_rows(run_id: int, place: Place, sentences: Sequence[Parsed], found: Sequence[np.ndarray]) -> pa.Table:
    """Build the rows of `tree_edge`: the edges of the spanning trees, each listed at its word that is further from the root of the parse."""
    rows = []
    for s, distances in zip(sentences, found, strict=True):
        words, before = np.flatnonzero(~s.is_punctuation), word_spanning_tree(s, distances)
        for i in np.flatnonzero(before >= 0):
            word, other = words[i], words[before[i]]
            ends = {"word_id": s.word_ids[word], "joined_word_id": s.word_ids[other], "distance": distances[word, other]}
            rows.append({"run_id": run_id, "layer": place[0], "site": place[1], **ends})
    return pa.Table.from_pylist(rows, EDGE)


OPTION = "--tree-probe"

WORDS_A_SENTENCE = 20
"""Approximate number of words per sentence of English prose; a dry run assumes it."""

EPOCHS = 20
"""Approximate number of epochs of a fit; a dry run assumes it."""


class TreeProbe(Work):
    """Plans and costs of the pass `tree_probe`."""

    def check_model(self, request: Request, model: Model) -> None:
        chosen_layers(request.options["probe_layers"], model.n_layers)

    def plans(self, basis: Basis) -> Iterable[Plan]:
        if basis.text is None:
            return
        text, request = basis.text, basis.request
        layers, ranks = chosen_layers(request.options["probe_layers"], basis.model.n_layers), chosen_ranks(request.options["tree_ranks"], basis.model.d_model)
        parsed = parsed_text(basis.con, text.corpus_id, OPTION, request.seed)
        found = trees(parsed)
        require_trees(found)
        shards = list(product(places(layers), TREE_TARGETS))
        settings = {"layers": layers, "ranks": ranks, "seed": request.seed, "batch_size": request.batch_size}

        def jobs(run_id: int, pending: list[int]) -> Iterable[Job]:
            sequences = [s for d in text.documents() for s in d.sequences if s.sequence_id in parsed.sequences]
            reading = {"layers": layers, "sequences": sequences, "batch_tokens": request.batch_tokens, "folder": work_folder(request.target)}
            of = {"run_id": run_id, "corpus_id": text.corpus_id, "trees": found, "ranks": ranks, "seed": request.seed, "reading": reading}
            return (job(run_id, i, compute, place=shards[i][0], target=shards[i][1], **of) for i in pending)

        yield Plan({**request.weights_settings(), **settings}, [1] * len(shards), "probes", jobs, text.corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Count the rows; the number for `tree_edge` is an upper bound."""
        n_places = 1 + len(chosen_layers(sample.request.options["probe_layers"], sample.model.n_layers))
        n_ranks = len(chosen_ranks(sample.request.options["tree_ranks"], sample.model.d_model))
        n_words = min(MOST_WORDS[True], sample.seen.n_positions) if sample.seen else 0
        n_probes = len(TREE_TARGETS) * n_places
        return {"tree_task": len(TREE_TARGETS), "tree_probe": n_probes * len(TREE_KINDS) * n_ranks, "tree_edge": n_places * n_words}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time of fits, from one step on a batch of random sentences, and of reading the words in both models."""
        if sample.seen is None:
            return 0.0
        n, random = min(sum(MOST_WORDS.values()), sample.seen.n_positions), np.random.default_rng(0)
        states = [random.normal(size=(WORDS_A_SENTENCE, sample.model.d_model)).astype(np.float32) for _ in range(BATCH)]
        ranks = chosen_ranks(sample.request.options["tree_ranks"], sample.model.d_model)
        n_steps = (
            n
            / WORDS_A_SENTENCE
            / BATCH
            * EPOCHS
            * len(TREE_TARGETS)
            * len(TREE_KINDS)
            * (1 + len(chosen_layers(sample.request.options["probe_layers"], sample.model.n_layers)))
        )
        return sum(fastest_seconds(timed_step(states, rank)) for rank in ranks) * n_steps + 2 * n * sample.token_seconds()

    def n_bytes(self, sample: CostSample) -> int:
        """Count the bytes of the model with random weights, and of the states at one place: as recorded, standardised and in batches."""
        weights = sum(p.numel() * p.element_size() for p in sample.model.hf.parameters())
        return weights + 4 * sum(MOST_WORDS.values()) * sample.model.d_model * 4


def require_trees(found: Trees) -> None:
    """Raise AtlasError if no sentence to learn from, or none of the test, has two words that are not punctuation."""
    for what, sentences in (("to learn from", found.train), ("of the test", found.test)):
        if not any((~s.is_punctuation).sum() > 1 for s in sentences):
            raise AtlasError(
                f"{OPTION}: no sentence {what} has a whole tree of read words ({found.n_left_out} sentences of both parts are left out); "
                "give --words with heads, or more text"
            )


def compute(
    worker: Worker, progress: Progress, *, run_id: int, corpus_id: int, place: Place, target: str, trees: Trees, ranks: list[int], seed: int,
    reading: dict[str, Any],
) -> Tables:  # fmt: skip
    positions = np.concatenate([s.last for s in (*trees.train, *trees.test)])
    states = worker.shared_state(run_id, lambda: states_of(worker.model, positions, seed, "tree", **reading))
    tables = tree_tables(run_id, trees, target, place, states, ranks, seed)
    progress(1)
    return tables | ({"tree_task": task_row(run_id, corpus_id, trees, target)} if place == (0, "resid_pre") else {})
