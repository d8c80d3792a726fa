"""Whether states have the distances and depths of parse trees, by a linear map (Hewitt and Manning 2019); one shard a place and target."""

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag
from ingest.passes.probe import chosen_layers
from schema.errors import AtlasError
from schema.terms import TREE_KINDS, TREE_TARGETS

if TYPE_CHECKING:
    from ingest.model.models import Model
    from ingest.recorders.tree_rows import Trees
    from ingest.recorders.word_states import Place
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

OPTION = "--tree-probe"
WORDS_A_SENTENCE = 20
"""Of English prose, about: what a dry run reckons with."""
EPOCHS = 20
"""That a fit takes, about."""


class TreeProbe(PlannedPass):
    name = "tree_probe"
    after = ("weights", "word")
    reads = ("word", "position", "sequence", "document")
    needs_corpus = True
    options = (
        flag("tree-probe", "Look for the parse trees of the words' sentences in the states of --probe-layers, by structural probes."),
        click.Option(["--tree-ranks"], metavar="RANKS", default="64", show_default=True, help="With so many dimensions: numbers such as 1,4,16,64."),
    )

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["tree_probe"])

    def check(self, request: "Request") -> None:
        chosen_layers(request, None)
        chosen_ranks(request, None)

    def check_model(self, request: "Request", model: "Model") -> None:
        chosen_layers(request, model.n_layers)

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.recorders.tree_rows import trees
        from ingest.recorders.word_states import places
        from ingest.store.committer import work_folder
        from ingest.text.parsed import parsed_text
        from ingest.workers.pool import job

        if basis.text is None:
            return
        text, request = basis.text, basis.request
        layers, ranks = chosen_layers(request, basis.model.n_layers), chosen_ranks(request, basis.model.d_model)
        parsed = parsed_text(basis.con, text.corpus_id, OPTION, request.seed)
        found = trees(parsed)
        require_trees(found)
        shards = list(product(places(layers), TREE_TARGETS))
        settings = {"layers": layers, "ranks": ranks, "seed": request.seed, "batch_size": request.batch_size}

        def jobs(run_id: int, pending: list[int]) -> "Iterable[Job]":
            sequences = [s for d in text.documents() for s in d.sequences if s.sequence_id in parsed.sequences]
            reading = {"layers": layers, "sequences": sequences, "batch_tokens": request.batch_tokens, "folder": work_folder(request.target)}
            of = {"run_id": run_id, "corpus_id": text.corpus_id, "trees": found, "ranks": ranks, "seed": request.seed, "reading": reading}
            return (job(run_id, i, compute, place=shards[i][0], target=shards[i][1], **of) for i in pending)

        yield Plan({**request.weights_settings(), **settings}, [1] * len(shards), "probes", jobs, text.corpus_id)

    def rows(self, probe: Probe) -> dict[str, int]:
        """Of edges at most."""
        from ingest.text.probed_words import MOST_WORDS

        n_places, n_ranks = 1 + len(chosen_layers(probe.request, probe.model.n_layers)), len(chosen_ranks(probe.request, probe.model.d_model))
        n_words = min(MOST_WORDS[True], probe.seen.n_positions) if probe.seen else 0
        n_probes = len(TREE_TARGETS) * n_places
        return {"tree_task": len(TREE_TARGETS), "tree_probe": n_probes * len(TREE_KINDS) * n_ranks, "tree_edge": n_places * n_words}

    def seconds(self, probe: Probe) -> float:
        """Of fits, from one step on a batch of random sentences, and of reading the words in both models."""
        import numpy as np

        from ingest.recorders.reading import n_tokens, read_batch
        from ingest.recorders.structural_probe import BATCH, timed_step
        from ingest.text.probed_words import MOST_WORDS
        from ingest.timing import fastest

        if probe.seen is None:
            return 0.0
        n, random = min(sum(MOST_WORDS.values()), probe.seen.n_positions), np.random.default_rng(0)
        states = [random.normal(size=(WORDS_A_SENTENCE, probe.model.d_model)).astype(np.float32) for _ in range(BATCH)]
        ranks = chosen_ranks(probe.request, probe.model.d_model)
        n_steps = n / WORDS_A_SENTENCE / BATCH * EPOCHS * len(TREE_TARGETS) * len(TREE_KINDS) * (1 + len(chosen_layers(probe.request, probe.model.n_layers)))
        batch = probe.batch
        reading = fastest(lambda: list(read_batch(probe.model, [], batch))) / sum(map(n_tokens, batch))
        return sum(fastest(timed_step(states, rank)) for rank in ranks) * n_steps + 2 * n * reading

    def n_bytes(self, probe: Probe) -> int:
        """The same model with random weights, and the states of one place: as they are, standardised and in batches."""
        from ingest.text.probed_words import MOST_WORDS

        weights = sum(p.numel() * p.element_size() for p in probe.model.hf.parameters())
        return weights + 4 * sum(MOST_WORDS.values()) * probe.model.d_model * 4


def chosen_ranks(request: "Request", d_model: int | None) -> list[int]:
    """Ascending, at most d_model, None where it is not known yet: more dimensions hold no more. Raises AtlasError for what is no rank."""
    asked: str = request.options["tree_ranks"]
    parts = asked.split(",")
    if not all(part.strip().isdecimal() and 0 < len(part.strip()) < 6 and int(part) > 0 for part in parts):
        raise AtlasError(f"--tree-ranks {asked!r}: give numbers of dimensions such as 1,4,16,64")
    return sorted({min(int(part), d_model or int(part)) for part in parts})


def require_trees(found: "Trees") -> None:
    """Raise AtlasError without a sentence to learn from, or without one that can be scored."""
    for what, sentences in (("to learn from", found.train), ("of the test", found.test)):
        if not any((~s.is_punctuation).sum() > 1 for s in sentences):
            raise AtlasError(
                f"{OPTION}: of the sentences {what} none has a whole tree of read words ({found.n_left_out} sentences of both parts are left out); "
                "give --words with heads, or more text"
            )


def compute(
    worker: "Worker", progress: "Progress", *, run_id: int, corpus_id: int, place: "Place", target: str, trees: "Trees", ranks: list[int], seed: int,
    reading: dict[str, Any],
) -> "Tables":  # fmt: skip
    import numpy as np

    from ingest.recorders.tree_rows import task_row, tree_tables
    from ingest.recorders.word_states import states_of

    positions = np.concatenate([s.last for s in (*trees.train, *trees.test)])
    states = worker.kept(run_id, lambda: states_of(worker.model, positions, seed, "tree", **reading))
    tables = tree_tables(run_id, trees, target, place, states, ranks, seed)
    progress(1)
    return tables | ({"tree_task": task_row(run_id, corpus_id, trees, target)} if place == (0, "resid_pre") else {})


PASS = TreeProbe()
