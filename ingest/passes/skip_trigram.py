"""Skip-trigrams of heads, and the tables of their circuits over the vocabulary (Elhage et al. 2021): one run a layer, one shard a head."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ingest.passes.base import Basis, Plan, PlannedPass, Probe
from schema.errors import AtlasError

if TYPE_CHECKING:
    import duckdb
    import numpy as np

    from ingest.model.models import Model
    from ingest.recorders.distances import Distances
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

PROBED = 4
"""Blocks of sources that a dry run looks at: the first ones fill the lists."""


class SkipTrigram(PlannedPass):
    """Of a text it takes how often it has each token: rare ones lead every list, since a model has not learned what follows them."""

    name = "skip_trigram"
    after = ("sweep", "head_statistics")
    reads = ("position",)
    reads_heads = True
    options = (
        click.Option(
            ["--skip-trigram"],
            type=click.IntRange(0),
            multiple=True,
            metavar="LAYER",
            help="Read the skip-trigrams of a layer's heads; 0 is the layer that reads tokens themselves. May be given for several layers.",
        ),
        click.Option(
            ["--skip-trigram-seen"],
            type=click.IntRange(0),
            default=10,
            show_default=True,
            metavar="N",
            help="They are of tokens that the text of the atlas has this often; 0: of all tokens.",
        ),
    )

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["skip_trigram"])

    def check_model(self, request: "Request", model: "Model") -> None:
        for layer in request.options["skip_trigram"]:
            if layer >= model.n_layers:
                raise AtlasError(f"--skip-trigram {layer}: {model.name} has layers 0 to {model.n_layers - 1}")

    def note(self, basis: Basis) -> str | None:
        from ingest.model.token_states import n_tokens
        from ingest.recorders.distances import are_named, distance_settings
        from ingest.recorders.reads import source_counts, token_counts
        from ingest.store.register import settings_of

        counts, least = token_counts(basis.con, n_tokens(basis.model)), basis.request.options["skip_trigram_seen"]
        distances, other = distance_settings(basis.con, basis.model, basis.request.context), []
        for layer in layers_of(basis.request):
            known, begun = source_counts(basis.con, layer), settings_of(basis.con, self.name, layer=layer)
            if len(known) and ((known != counts).any() or not are_named(distances, begun or {})):
                other.append(str(layer))
        if other:
            of = f"the skip-trigrams of layer {', '.join(other)} are of the text and the distances that the atlas had when they were begun"
            return f"note: {of}; for those that it has now ingest into a new file"
        if (counts >= least).any():
            return None
        lacking = f"the atlas has no token {least} times in its text (--corpus, --triggers)"
        return f"note: no skip_trigram: {lacking}; ask again when it has, or with --skip-trigram-seen 0"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.model.token_states import n_tokens
        from ingest.recorders.distances import distance_settings, distances_of
        from ingest.recorders.reads import source_counts, token_counts
        from ingest.store.register import settings_of
        from ingest.workers.pool import job

        least = basis.request.options["skip_trigram_seen"]
        for layer in layers_of(basis.request):
            check_seen(basis.con, layer, least)
            # a run that goes on has the counts, and the distances, that it began with
            settings = settings_of(basis.con, self.name, layer=layer) or {
                **basis.request.weights_settings(),
                "layer": layer,
                "seen": least,
                **distance_settings(basis.con, basis.model, basis.request.context),
            }
            counts = source_counts(basis.con, layer)
            if not len(counts):
                counts = token_counts(basis.con, n_tokens(basis.model))
            of = {"layer": layer, "counts": counts, "least": least}

            def jobs(run_id: int, heads: list[int], of: dict = of, settings: dict = settings) -> "Iterable[Job]":
                distances = distances_of(basis.con, basis.model, settings, of["layer"])
                return (job(run_id, head, compute, run_id=run_id, head=head, distances=distances, **of) for head in heads)

            if (counts >= least).any():
                yield Plan(settings, [1] * basis.model.n_heads, "heads", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        """At most: fewer where a text has few tokens often."""
        from ingest.model.token_states import n_tokens
        from ingest.recorders.skip_trigrams import N_KEPT, N_LARGEST
        from schema.terms import HEAD_CIRCUITS, TAILS

        heads, n = len(layers_of(probe.request)) * probe.model.n_heads, n_tokens(probe.model)
        rows = heads * len(HEAD_CIRCUITS) * n
        return {"circuit_token": rows * min(N_KEPT, n), "circuit_source": rows, "skip_trigram": heads * len(TAILS) ** 2 * N_LARGEST}

    def seconds(self, probe: Probe) -> float:
        """At most: fewer where a text has few tokens often."""
        import numpy as np

        from ingest.model.token_states import n_tokens
        from ingest.recorders.distances import Distances, read_context
        from ingest.recorders.skip_trigrams import CHUNK, head_tables
        from ingest.recorders.token_circuits import token_circuits
        from ingest.timing import timed

        layers, found, n = layers_of(probe.request), [], n_tokens(probe.model)
        distances = Distances(read_context(probe.model, probe.request.context))
        circuits = timed(lambda: found.append(token_circuits(probe.model, layers[0], np.zeros(n, np.int64), 0, distances)))
        few = min(PROBED * CHUNK, n)
        head = timed(lambda: head_tables(found[0], layers[0], 0, few, lambda _: None)) * n / few
        return len(layers) * (circuits + probe.model.n_heads * head)


def layers_of(request: "Request") -> list[int]:
    return sorted(set(request.options["skip_trigram"]))


def check_seen(con: "duckdb.DuckDBPyConnection", layer: int, least: int) -> None:
    """Raise AtlasError where the atlas has a layer's skip-trigrams with another filter."""
    for run_id, settings in con.execute("SELECT r.run_id, r.settings FROM run AS r WHERE r.kind = 'skip_trigram'").fetchall():
        of = json.loads(settings)
        if of["layer"] == layer and of.get("seen") != least:
            raise AtlasError(
                f"--skip-trigram-seen {least}: run {run_id} has read layer {layer} with {of.get('seen')}. Use that number, or ingest into a new file."
            )


def compute(
    worker: "Worker", progress: "Progress", *, run_id: int, layer: int, head: int, counts: "np.ndarray", least: int, distances: "Distances | None"
) -> "Tables":
    from ingest.recorders.skip_trigrams import head_tables
    from ingest.recorders.token_circuits import token_circuits

    circuits = worker.kept(run_id, lambda: token_circuits(worker.model, layer, counts, least, distances))
    return head_tables(circuits, layer, head, len(counts), progress)


PASS = SkipTrigram()
