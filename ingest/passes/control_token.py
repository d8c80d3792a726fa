"""What values are compared with: the tokens of random vectors and of whole FFN updates (Geva et al. 2022, section 4): one shard a layer."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import pyarrow as pa

    from ingest.model.models import Model
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

N_ITEMS = 10
"""Random vectors, and updates, of each layer."""


class ControlToken(PlannedPass):
    name = "control_token"
    after = ("trace",)
    reads = ("trace", "residual_state", "position", "control_token")
    options = (flag("control-token", "Project random vectors and whole FFN updates, which values are compared with (part of --paper)."),)

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["control_token"])

    def note(self, basis: Basis) -> str | None:
        from ingest.recorders.reads import update_positions

        return None if len(update_positions(basis.con, 0)) else "note: no FFN updates in control_token: nothing is traced (--trace); ask again when it is"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.recorders.reads import update_positions
        from ingest.workers.pool import job

        seed, n_updates = basis.request.seed, min(N_ITEMS, len(update_positions(basis.con, 0)))
        # what the atlas can give it is a setting, so that a run after a later trace is another run
        settings = {**basis.request.weights_settings(), "seed": seed, "items_per_layer": N_ITEMS, "updates_per_layer": n_updates}

        def jobs(run_id: int, layers: list[int]) -> "Iterable[Job]":
            return (job(run_id, layer, compute, layer=layer, seed=seed, **lacking(basis.con, layer, seed, n_updates)) for layer in layers)

        yield Plan(settings, [1] * basis.model.n_layers, "layers", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        from ingest.recorders.values import N_TOKENS

        n_traced = len(probe.seen.sample) if probe.seen else 0
        return {"control_token": probe.model.n_layers * (N_ITEMS + min(N_ITEMS, n_traced)) * min(N_TOKENS, probe.model.d_vocab)}

    def seconds(self, probe: Probe) -> float:
        from ingest.timing import fastest

        return probe.model.n_layers * fastest(lambda: random_rows(probe.model, 0, 0))


def lacking(con: "duckdb.DuckDBPyConnection", layer: int, seed: int, n_updates: int) -> dict[str, object]:
    """What the atlas lacks of a layer and can have: whether random vectors; position_ids [n] and updates [n, d_model] (ffn_out)."""
    from ingest.recorders.reads import update_positions, updates
    from ingest.text.survey import smallest

    there = {c for (c,) in con.execute("SELECT DISTINCT control FROM control_token WHERE layer = ?", [layer]).fetchall()}
    chosen = smallest(seed, layer, update_positions(con, layer), 0 if "ffn_update" in there else n_updates)
    return {"has_vectors": "random_vector" in there, "position_ids": chosen, "vectors": updates(con, layer, chosen)}


def compute(worker: "Worker", progress: "Progress", *, layer: int, seed: int, has_vectors: bool, position_ids: "np.ndarray", vectors: "np.ndarray") -> "Tables":
    import pyarrow as pa
    import torch

    from ingest.recorders.controls import control_rows

    rows = [] if has_vectors else [random_rows(worker.model, layer, seed)]
    if len(position_ids):
        rows.append(control_rows(worker.model, layer, "ffn_update", position_ids, torch.from_numpy(vectors).to(worker.model.device)))
    progress(1)
    return {"control_token": pa.concat_tables(rows)} if rows else {}


def random_rows(model: "Model", layer: int, seed: int) -> "pa.Table":
    """Rows of a layer's random vectors."""
    import numpy as np

    from ingest.recorders.controls import control_rows, random_vectors

    return control_rows(model, layer, "random_vector", np.arange(N_ITEMS), random_vectors(model.values(layer), layer, seed, N_ITEMS))


PASS = ControlToken()
