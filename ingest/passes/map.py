"""Every value, and every traced state, placed in two dimensions: one run a layout, each of one shard."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag
from schema.terms import LAYOUTS

if TYPE_CHECKING:
    import numpy as np

    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

MOST_STATES = 50_000
"""States placed at once. Their vectors take 0.2 GB at a width of 1,024, and each is compared with all; of more positions a seeded sample is placed."""

PROBED = 1024
"""Values that a dry run places."""


class Map(PlannedPass):
    name = "map"
    after = ("weights", "trace")
    reads = ("value_neighbour", "trace", "residual_state")
    options = (flag("map", "Place the values, and the traced states, in two dimensions for the map."),)

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["map"])

    def plans(self, basis: Basis) -> Iterable[Plan]:
        """Layouts of what the atlas holds. What it can give is one of the settings, so that a run after another trace is another run."""
        from ingest.recorders.layout import EPOCHS
        from ingest.recorders.reads import traced_positions
        from ingest.recorders.values import N_NEIGHBOURS
        from ingest.workers.pool import job

        settings = {**basis.request.weights_settings(), "seed": basis.request.seed, "n_neighbours": N_NEIGHBOURS, "n_epochs": EPOCHS}
        n_traced = len(traced_positions(basis.con))
        arguments = {"value": value_arguments, "resid_post": state_arguments}
        for layout in LAYOUTS if n_traced else ("value",):
            of = {"layout": layout, "seed": basis.request.seed}

            def jobs(run_id: int, shards: list[int], of: dict = of) -> "Iterable[Job]":
                return (job(run_id, i, compute, run_id=run_id, **of, **arguments[of["layout"]](basis)) for i in shards)

            yield Plan({**settings, "layout": layout, **({} if layout == "value" else {"n_traced": n_traced})}, [1], "layouts", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        return {"map_point": probe.model.n_layers * probe.model.d_ffn + n_states(probe)}

    def seconds(self, probe: Probe) -> float:
        """The descent takes as long for every point, and the states are compared with each other first."""
        from torch.nn.functional import normalize

        from ingest.recorders.layout import placed, principal
        from ingest.recorders.values import nearest
        from ingest.timing import fastest

        units = normalize(probe.model.values(0)[:PROBED], dim=1)
        cosines, indices = nearest(0, [units.unsqueeze(0)])
        start = principal(lambda _: units, 1)
        point = fastest(lambda: placed(indices, cosines, start, 0)) / len(units)
        pair = fastest(lambda: nearest(0, [units.unsqueeze(0)])) / len(units) ** 2
        return point * (probe.model.n_layers * probe.model.d_ffn + n_states(probe)) + pair * n_states(probe) ** 2


def value_arguments(basis: Basis) -> dict[str, object]:
    """The neighbours that the weights' run has found: no two values are compared again."""
    from ingest.recorders.reads import neighbours

    indices, cosines = neighbours(basis.con, basis.model.n_layers, basis.model.d_ffn)
    return {"indices": indices, "cosines": cosines}


def state_arguments(basis: Basis) -> dict[str, object]:
    """Positions [n] and states [n_layers, n, d_model] of all traced positions, or of a seeded sample of as many as fit."""
    import numpy as np

    from ingest.recorders.reads import states_of, traced_positions
    from ingest.text.survey import smallest

    n_layers = basis.model.n_layers
    positions = smallest(basis.request.seed, 0, traced_positions(basis.con), max(MOST_STATES // n_layers, 1))
    return {"positions": positions, "states": np.stack([states_of(basis.con, layer, "resid_post", positions) for layer in range(n_layers)])}


def compute(worker: "Worker", progress: "Progress", *, run_id: int, layout: str, seed: int, **of: "np.ndarray") -> "Tables":
    from ingest.recorders.map_points import state_rows, value_rows

    rows = value_rows(worker.model, run_id, seed, **of) if layout == "value" else state_rows(worker.model, layout, run_id, seed, **of)
    progress(1)
    return {"map_point": rows}


def n_states(probe: Probe) -> int:
    layers = probe.model.n_layers
    return layers * min(len(probe.seen.sample), max(MOST_STATES // layers, 1)) if probe.seen else 0


PASS = Map()
