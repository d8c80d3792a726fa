"""What can be read of words from states, by linear probes, beside what a probe can memorise (Hewitt and Liang 2019); one shard a task and place."""

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from ingest.passes.base import Basis, Plan, PlannedPass, Probe
from schema.errors import AtlasError
from schema.terms import PROBE_TASKS

if TYPE_CHECKING:
    from ingest.model.models import Model
    from ingest.recorders.word_states import Place
    from ingest.request import Request
    from ingest.text.probed_words import ProbedWords
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

FITS = 6
"""Fits over all words that a probe takes, about: of three kinds, each once and once more in the blocks of its code."""


class LinearProbe(PlannedPass):
    name = "probe"
    after = ("weights", "word")
    reads = ("word", "position", "sequence", "document")
    needs_corpus = True
    options = (
        click.Option(["--probe"], type=click.Choice(PROBE_TASKS), multiple=True, help="Read this label of the words from states, by linear probes."),
        click.Option(["--probe-rank"], type=click.IntRange(min=1), metavar="N", help="With probes that read at most so many directions of a state."),
        click.Option(["--probe-layers"], metavar="LAYERS", default="all", show_default=True, help="Of which layers: numbers such as 0,5,9."),
    )

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["probe"])

    def check(self, request: "Request") -> None:
        chosen_layers(request, None)

    def check_model(self, request: "Request", model: "Model") -> None:
        chosen_layers(request, model.n_layers)

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.recorders.word_states import places
        from ingest.store.committer import work_folder
        from ingest.text.probed_words import MOST_WORDS, probed_words
        from ingest.workers.pool import job

        if basis.text is None:
            return
        text, request = basis.text, basis.request
        tasks, layers = tuple(task for task in PROBE_TASKS if task in request.options["probe"]), chosen_layers(request, basis.model.n_layers)
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

        def jobs(run_id: int, pending: list[int]) -> "Iterable[Job]":
            sequences = [s for d in text.documents() for s in d.sequences if s.sequence_id in chosen]
            reading = {"layers": layers, "sequences": sequences, "batch_tokens": request.batch_tokens, "folder": work_folder(request.target)}
            of = {"run_id": run_id, "corpus_id": text.corpus_id, "words": words, "seed": request.seed, "rank": rank, "reading": reading}
            return (job(run_id, i, compute, task=shards[i][0], place=shards[i][1], **of) for i in pending)

        yield Plan({**request.weights_settings(), **settings}, [1] * len(shards), "probes", jobs, text.corpus_id)

    def rows(self, probe: Probe) -> dict[str, int]:
        """Of predictions at most."""
        from ingest.text.probed_words import MOST_WORDS
        from schema.terms import PROBE_KINDS

        n_tasks, n_places = len(set(probe.request.options["probe"])), 1 + len(chosen_layers(probe.request, probe.model.n_layers))
        n_words = min(MOST_WORDS[True], probe.seen.n_positions) if probe.seen else 0
        return {"probe_task": n_tasks, "probe": n_tasks * n_places * len(PROBE_KINDS), "probe_prediction": n_tasks * n_places * n_words}

    def seconds(self, probe: Probe) -> float:
        """Of fits, from one over few random words with as many labels as there are parts of speech, and of reading the words in both models."""
        import numpy as np

        from ingest.recorders.linear_probe import learned
        from ingest.recorders.reading import n_tokens, read_batch
        from ingest.text.probed_words import MOST_WORDS
        from ingest.timing import fastest

        if probe.seen is None:
            return 0.0
        n, random = min(sum(MOST_WORDS.values()), probe.seen.n_positions), np.random.default_rng(0)
        x, y = random.normal(size=(500, probe.model.d_model)).astype(np.float32), random.integers(17, size=500)
        fits = FITS * len(set(probe.request.options["probe"])) * (1 + len(chosen_layers(probe.request, probe.model.n_layers)))
        batch = probe.batch
        reading = fastest(lambda: list(read_batch(probe.model, [], batch))) / sum(map(n_tokens, batch))
        return n * (fastest(lambda: learned(x, y, x[:1], 17, probe.request.options["probe_rank"])) / len(y) * fits + 2 * reading)

    def n_bytes(self, probe: Probe) -> int:
        """The same model with random weights, and the states of one place: as they are, standardised and in the order of the code."""
        from ingest.text.probed_words import MOST_WORDS

        weights = sum(p.numel() * p.element_size() for p in probe.model.hf.parameters())
        return weights + 4 * sum(MOST_WORDS.values()) * probe.model.d_model * 4


def chosen_layers(request: "Request", n_layers: int | None) -> list[int]:
    """Ascending; n_layers: None where they are not known yet. Raises AtlasError for what is no layer."""
    asked: str = request.options["probe_layers"]
    if asked == "all":
        return list(range(n_layers or 0))
    parts = asked.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise AtlasError(f"--probe-layers {asked!r}: give all, or numbers of layers such as 0,5,9")
    layers = sorted({int(part) for part in parts})
    if n_layers is not None and layers[-1] >= n_layers:
        raise AtlasError(f"--probe-layers {asked!r}: there is no layer {layers[-1]}; the model has layers 0 to {n_layers - 1}")
    return layers


def require_classes(words: "ProbedWords", tasks: tuple[str, ...]) -> None:
    """Raise AtlasError for a task without two labels to tell apart, or without words to be scored on."""
    from ingest.recorders.probe_rows import task_of

    for name in tasks:
        task = task_of(words, name)
        if len(task.classes) < 2 or not len(task.test_words):
            found = f"the only one is {task.classes[0]}" if len(task.classes) else "no word has one"
            raise AtlasError(
                f"--probe {name}: a probe tells labels apart, and of the words to learn from {found}; those of the test are {len(task.test_words)}"
            )


def compute(
    worker: "Worker", progress: "Progress", *, run_id: int, corpus_id: int, task: str, place: "Place", words: "ProbedWords", seed: int,
    rank: int | None, reading: dict[str, Any],
) -> "Tables":  # fmt: skip
    from ingest.recorders.probe_rows import probe_tables, task_of, task_row
    from ingest.recorders.word_states import states_of

    states = worker.kept(run_id, lambda: states_of(worker.model, words.position_ids, seed, "label", **reading))
    found = task_of(words, task)
    tables = probe_tables(run_id, found, place, states, seed, rank)
    progress(1)
    return tables | ({"probe_task": task_row(run_id, corpus_id, found)} if place == (0, "resid_pre") else {})


PASS = LinearProbe()
