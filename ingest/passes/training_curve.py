"""How a model came to do induction, where its training was watched and it ships what was seen (Olsson et al. 2022, phase change): one shard."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe

if TYPE_CHECKING:
    from ingest.model.reference.probe import Probe as Check
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker


class TrainingCurve(PlannedPass):
    """It is of every ingest of such a model, as the weights are."""

    name = "training_curve"
    after = ("weights",)
    is_repeatable = False

    def is_wanted(self, request: "Request") -> bool:
        return bool(curve(request))

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.workers.pool import job

        # read here: the model's folder need not be there for workers
        checks = curve(basis.request)

        def jobs(run_id: int, _: list[int]) -> "Iterable[Job]":
            yield job(run_id, 0, compute, checks=checks)

        yield Plan(basis.request.weights_settings(), [len(checks)], "checks", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        return {"training_curve": len(curve(probe.request))}

    def seconds(self, probe: Probe) -> float:
        return 0.0


def curve(request: "Request") -> "list[Check]":
    """What was seen of the model in training; empty for one without it."""
    from pathlib import Path

    from ingest.model.reference import FOLDERS
    from ingest.model.reference.probe import read_curve

    return read_curve(FOLDERS.get(request.model, Path(request.model).expanduser()))


def compute(worker: "Worker", progress: "Progress", *, checks: "list[Check]") -> "Tables":
    import numpy as np
    import pyarrow as pa

    kinds = {"step": np.int32, **dict.fromkeys(("first_block", "second_block", "induction", "previous"), np.float32)}
    columns = zip(*checks, strict=True)
    progress(len(checks))
    return {"training_curve": pa.table({name: np.array(column, kinds.get(name, np.int16)) for name, column in zip(checks[0]._fields, columns, strict=True)})}


PASS = TrainingCurve()
