"""Skip-trigrams of heads, and the tables of their circuits over the vocabulary (Elhage et al. 2021): one run a layer, one shard a head."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ingest.passes.base import Basis, Plan, PlannedPass, Probe
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.model.models import Model
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker


class SkipTrigram(PlannedPass):
    name = "skip_trigram"
    after = ("weights",)
    reads_heads = True
    options = (
        click.Option(
            ["--skip-trigram"],
            type=click.IntRange(0),
            multiple=True,
            metavar="LAYER",
            help="Read the skip-trigrams of a layer's heads; 0 is the layer that reads tokens themselves. May be given for several layers.",
        ),
    )

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["skip_trigram"])

    def check_model(self, request: "Request", model: "Model") -> None:
        for layer in request.options["skip_trigram"]:
            if layer >= model.n_layers:
                raise AtlasError(f"--skip-trigram {layer}: {model.name} has layers 0 to {model.n_layers - 1}")

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.workers.pool import job

        for layer in layers_of(basis.request):

            def jobs(run_id: int, heads: list[int], layer: int = layer) -> "Iterable[Job]":
                return (job(run_id, head, compute, run_id=run_id, layer=layer, head=head) for head in heads)

            yield Plan({**basis.request.weights_settings(), "layer": layer}, [1] * basis.model.n_heads, "heads", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        from ingest.model.token_states import n_tokens
        from ingest.recorders.skip_trigrams import N_KEPT, N_LARGEST
        from schema.terms import HEAD_CIRCUITS, TAILS

        heads, n = len(layers_of(probe.request)) * probe.model.n_heads, n_tokens(probe.model)
        rows = heads * len(HEAD_CIRCUITS) * n
        return {"circuit_token": rows * min(N_KEPT, n), "circuit_source": rows, "skip_trigram": heads * len(TAILS) ** 2 * N_LARGEST}

    def seconds(self, probe: Probe) -> float:
        from ingest.model.token_states import n_tokens
        from ingest.recorders.skip_trigrams import CHUNK, head_tables, token_circuits
        from ingest.timing import timed

        layers, found = layers_of(probe.request), []
        circuits = timed(lambda: found.append(token_circuits(probe.model, layers[0])))
        n = n_tokens(probe.model)
        few = min(CHUNK, n)
        head = timed(lambda: head_tables(found[0], layers[0], 0, few, lambda _: None)) * n / few
        return len(layers) * (circuits + probe.model.n_heads * head)


def layers_of(request: "Request") -> list[int]:
    return sorted(set(request.options["skip_trigram"]))


def compute(worker: "Worker", progress: "Progress", *, run_id: int, layer: int, head: int) -> "Tables":
    from ingest.model.token_states import n_tokens
    from ingest.recorders.skip_trigrams import head_tables, token_circuits

    circuits = worker.kept(run_id, lambda: token_circuits(worker.model, layer))
    return head_tables(circuits, layer, head, n_tokens(worker.model), progress)


PASS = SkipTrigram()
