"""Rows of the tables of probes: of one task in one place of the stream, and of the task itself."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.recorders.linear_probe import L2, Labelled, control_labels, probed, type_guess
from ingest.recorders.word_states import Place, WordStates
from ingest.text.probed_words import ProbedWords
from ingest.workers.worker import Tables

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
    """A task's words, in both parts, and its classes, sorted. positions: of each part."""

    name: str
    classes: np.ndarray
    train: Labelled
    test: Labelled
    positions: tuple[np.ndarray, np.ndarray]
    test_words: np.ndarray
    test_labels: np.ndarray


def task_of(words: ProbedWords, name: str) -> Task:
    """Words without a label of the task are left out."""
    given = words.labels[name]
    is_there = np.array([label is not None for label in given], bool)
    train, test = is_there & ~words.is_test, is_there & words.is_test
    classes = np.unique(given[train].astype(str))
    number = {label: i for i, label in enumerate(classes.tolist())}

    def labelled(part: np.ndarray) -> Labelled:
        return Labelled(words.types[part], np.array([number.get(label, -1) for label in given[part]], np.int64), words.document_ids[part])

    positions = words.position_ids[train], words.position_ids[test]
    return Task(name, classes, labelled(train), labelled(test), positions, words.word_ids[test], given[test].astype(str))


def task_row(run_id: int, corpus_id: int, task: Task) -> pa.Table:
    """Of `probe_task`."""
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
    """Of `probe` and `probe_prediction`. states: of the model and of the same with random weights, by PROBE_KINDS. rank: of the probes at most, if asked."""
    k = len(task.classes)
    drawn = control_labels(task.train.labels, int(max(task.train.types.max(), task.test.types.max())) + 1, k, seed)
    control = tuple(Labelled(part.types, drawn[part.types], part.documents) for part in (task.train, task.test))
    rows, predicted = [], np.zeros((0, k))
    for kind, (train, test), of in (
        ("label", (task.train, task.test), "label"), ("control", control, "label"), ("untrained", (task.train, task.test), "untrained"),
    ):  # fmt: skip
        found = states[of]
        row, probs = probed((found.of(place, task.positions[0]), found.of(place, task.positions[1])), train, test, k, seed, rank)
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
