"""Curve of how a model learned induction (Olsson et al. 2022, phase change), for models that ship measurements from their training; one shard."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ingest.model.reference.probe import Probe as Check
from ingest.model.reference.probe import curve
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker


class TrainingCurve(Work):
    """Plans and costs of the pass `training_curve`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        # read here: the model's folder need not be there for workers
        checks = curve(basis.request.model)

        def jobs(run_id: int, _: list[int]) -> Iterable[Job]:
            yield job(run_id, 0, compute, checks=checks)

        yield Plan(basis.request.weights_settings(), [len(checks)], "checks", jobs)

    def rows(self, sample: CostSample) -> dict[str, int]:
        return {"training_curve": len(curve(sample.request.model))}

    def seconds(self, sample: CostSample) -> float:
        return 0.0


def compute(worker: Worker, progress: Progress, *, checks: list[Check]) -> Tables:
    kinds = {"step": np.int32, **dict.fromkeys(("first_block", "second_block", "induction", "previous"), np.float32)}
    columns = zip(*checks, strict=True)
    progress(len(checks))
    return {"training_curve": pa.table({name: np.array(column, kinds.get(name, np.int16)) for name, column in zip(checks[0]._fields, columns, strict=True)})}
