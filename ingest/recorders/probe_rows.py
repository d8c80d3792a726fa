"""Rows of the tables of linear probes: of a task's probes at one place of the stream, and of the task itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from ingest.model.models import Model
from ingest.recorders.linear_probe import L2, LabelledWords, control_labels, evaluate_probe, fit_class_probs, type_guess
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.word_states import Place, WordStates, places, states_of
from ingest.request import Request
from ingest.store.committer import work_folder
from ingest.text.probed_words import MOST_WORDS, ProbedWords, chosen_layers, probed_words
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.errors import AtlasError
from schema.terms import PROBE_KINDS, PROBE_TASKS

FLOATS = ("accuracy", "accuracy_low", "accuracy_high", "unseen_accuracy", "codelength")
PROBE = pa.schema(
    [
        *((name, pa.int32() if name == "run_id" else pa.string()) for name in ("run_id", "task", "kind")),
        ("layer", pa.int16()),
        ("site", pa.string()),
        *((name, pa.float64()) for name in FLOATS),
        ("is_converged", pa.bool_()),
        ("rank", pa.int32()),
        ("n_clusters", pa.int32()),
        ("interval_note", pa.string()),
    ]
)


@dataclass(frozen=True, eq=False)
class Task:
    """A probing task: its classes, sorted, and its words, to learn from and of the test.

    positions: position_ids of the words to learn from, and of those of the test. test_words, test_labels: word_id and label of each word of the test.
    """

    name: str
    classes: np.ndarray
    train: LabelledWords
    test: LabelledWords
    positions: tuple[np.ndarray, np.ndarray]
    test_words: np.ndarray
    test_labels: np.ndarray


def task_of(words: ProbedWords, name: str) -> Task:
    """Build the task called `name`. Words that have no label for it are left out."""
    given = words.labels[name]
    is_there = np.array([label is not None for label in given], bool)
    train, test = is_there & ~words.is_test, is_there & words.is_test
    classes = np.unique(given[train].astype(str))
    number = {label: i for i, label in enumerate(classes.tolist())}

    def label_words(part: np.ndarray) -> LabelledWords:
        return LabelledWords(words.types[part], np.array([number.get(label, -1) for label in given[part]], np.int64), words.document_ids[part])

    positions = words.position_ids[train], words.position_ids[test]
    return Task(name, classes, label_words(train), label_words(test), positions, words.word_ids[test], given[test].astype(str))


def task_row(run_id: int, corpus_id: int, task: Task) -> pa.Table:
    """Build the row of `probe_task`."""
    train, test, k = task.train, task.test, len(task.classes)
    majority = np.bincount(train.labels).argmax()
    row = {
        "run_id": run_id, "task": task.name, "corpus_id": corpus_id, "n_train": len(train.labels), "n_test": len(test.labels),
        "n_train_documents": len(np.unique(train.documents)), "n_test_documents": len(np.unique(test.documents)), "n_classes": k,
        "n_unseen": int((~np.isin(test.types, train.types)).sum()), "l2": L2, "majority_accuracy": float((test.labels == majority).mean()),
        "type_accuracy": float((test.labels == type_guess(train, test, k)).mean()),
    }  # fmt: skip
    return pa.Table.from_pylist([row])


def probe_tables(run_id: int, task: Task, place: Place, states: Mapping[str, WordStates], seed: int, rank: int | None) -> Tables:
    """Compute the rows of `probe` and `probe_prediction`.

    states: under 'label' those of the model, under 'untrained' those of the same model with random weights. rank: as in `fit_class_probs`.
    """
    k = len(task.classes)
    drawn = control_labels(task.train.labels, int(max(task.train.types.max(), task.test.types.max())) + 1, k, seed)
    control = tuple(LabelledWords(part.types, drawn[part.types], part.documents) for part in (task.train, task.test))
    rows, predicted = [], np.zeros((0, k))
    for kind, (train, test), of in (
        ("label", (task.train, task.test), "label"), ("control", control, "label"), ("untrained", (task.train, task.test), "untrained"),
    ):  # fmt: skip
        found = states[of]
        row, probs = evaluate_probe((found.states_at(place, task.positions[0]), found.states_at(place, task.positions[1])), train, test, k, seed, rank)
        rows.append({"run_id": run_id, "task": task.name, "kind": kind, "layer": place[0], "site": place[1], **row})
        predicted = probs if kind == "label" else predicted
    n = len(predicted)
    return {
        "probe": pa.Table.from_pylist(rows, PROBE),
        "probe_prediction": pa.table(
            {
                "run_id": np.full(n, run_id, np.int32),
                "task": [task.name] * n,
                "layer": np.full(n, place[0], np.int16),
                "site": [place[1]] * n,
                "word_id": task.test_words,
                "label": task.test_labels.tolist(),
                "predicted": task.classes[predicted.argmax(1)].tolist(),
                "prob": predicted.max(1).astype(np.float32),
            }
        ),
    }


FITS = 6
"""Approximate number of fits over all words for each task and place. Each of three kinds of probe takes one, and its online code about one more."""


class LinearProbe(Work):
    """Plans and costs of the pass `probe`."""

    def check_model(self, request: Request, model: Model) -> None:
        chosen_layers(request.options["probe_layers"], model.n_layers)

    def plans(self, basis: Basis) -> Iterable[Plan]:
        if basis.text is None:
            return
        text, request = basis.text, basis.request
        tasks = tuple(task for task in PROBE_TASKS if task in request.options["probe"])
        layers = chosen_layers(request.options["probe_layers"], basis.model.n_layers)
        words, chosen = probed_words(basis.con, text.corpus_id, tasks, request.seed)
        require_classes(words, tasks)
        shards = list(product(tasks, places(layers)))
        settings: dict[str, object] = {
            "tasks": list(tasks),
            "layers": layers,
            "seed": request.seed,
            "words": sum(MOST_WORDS.values()),
            "batch_size": request.batch_size,
        }
        rank: int | None = request.options["probe_rank"]
        if rank is not None:
            settings["rank"] = rank

        def jobs(run_id: int, pending: list[int]) -> Iterable[Job]:
            sequences = [s for d in text.documents() for s in d.sequences if s.sequence_id in chosen]
            reading = {"layers": layers, "sequences": sequences, "batch_tokens": request.batch_tokens, "folder": work_folder(request.target)}
            of = {"run_id": run_id, "corpus_id": text.corpus_id, "words": words, "seed": request.seed, "rank": rank, "reading": reading}
            return (job(run_id, i, compute, task=shards[i][0], place=shards[i][1], **of) for i in pending)

        yield Plan({**request.weights_settings(), **settings}, [1] * len(shards), "probes", jobs, text.corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Count the rows; the number for `probe_prediction` is an upper bound."""
        n_tasks, n_places = len(set(sample.request.options["probe"])), 1 + len(chosen_layers(sample.request.options["probe_layers"], sample.model.n_layers))
        n_words = min(MOST_WORDS[True], sample.seen.n_positions) if sample.seen else 0
        return {"probe_task": n_tasks, "probe": n_tasks * n_places * len(PROBE_KINDS), "probe_prediction": n_tasks * n_places * n_words}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time of the fits, and of reading the words in both models.

        The time of a fit is measured on a few random states with as many labels as there are parts of speech.
        """
        if sample.seen is None:
            return 0.0
        n, random = min(sum(MOST_WORDS.values()), sample.seen.n_positions), np.random.default_rng(0)
        x, y = random.normal(size=(500, sample.model.d_model)).astype(np.float32), random.integers(17, size=500)
        fits = FITS * len(set(sample.request.options["probe"])) * (1 + len(chosen_layers(sample.request.options["probe_layers"], sample.model.n_layers)))
        return n * (
            fastest_seconds(lambda: fit_class_probs(x, y, x[:1], 17, sample.request.options["probe_rank"])) / len(y) * fits + 2 * sample.token_seconds()
        )

    def n_bytes(self, sample: CostSample) -> int:
        """Count the bytes of the model with random weights, and of three copies of one place's states: recorded, standardised, and shuffled."""
        weights = sum(p.numel() * p.element_size() for p in sample.model.hf.parameters())
        return weights + 4 * sum(MOST_WORDS.values()) * sample.model.d_model * 4


def require_classes(words: ProbedWords, tasks: tuple[str, ...]) -> None:
    """Raise AtlasError if a task has fewer than two labels to tell apart, or no words to test on."""
    for name in tasks:
        task = task_of(words, name)
        if len(task.classes) < 2 or not len(task.test_words):
            found = f"such as {task.classes[0]}" if len(task.classes) else "no word has one"
            raise AtlasError(
                f"--probe {name}: a probe needs two labels and words to test on; labels among the words to learn from: {len(task.classes)} ({found}); "
                f"labelled words to test on: {len(task.test_words)}. Give more text, or --words with labels"
            )


def compute(
    worker: Worker, progress: Progress, *, run_id: int, corpus_id: int, task: str, place: Place, words: ProbedWords, seed: int,
    rank: int | None, reading: dict[str, Any],
) -> Tables:  # fmt: skip
    states = worker.shared_state(run_id, lambda: states_of(worker.model, words.position_ids, seed, "label", **reading))
    found = task_of(words, task)
    tables = probe_tables(run_id, found, place, states, seed, rank)
    progress(1)
    return tables | ({"probe_task": task_row(run_id, corpus_id, found)} if place == (0, "resid_pre") else {})
