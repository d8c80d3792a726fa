"""What each attention head looks at in random tokens that repeat, and how well the model predicts them (Olsson et al. 2022): one shard a probe."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag
from schema.terms import PROBES

if TYPE_CHECKING:
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker


class HeadProbe(PlannedPass):
    name = "head_probe"
    after = ("weights",)
    is_repeatable = False
    reads_heads = True
    options = (flag("head-probe", "Probe what each attention head looks at with random tokens that repeat."),)

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["head_probe"])

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.workers.pool import job

        request = basis.request
        of = {"bos": request.bos, "seed": request.seed}

        def jobs(run_id: int, probes: list[int]) -> "Iterable[Job]":
            return (job(run_id, i, compute, probe=PROBES[i], **of) for i in probes)

        yield Plan({**request.weights_settings(), **of}, [1] * len(PROBES), "probes", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        from ingest.recorders.probes import SHAPES

        n_blocks = sum(n_times for _, n_times in SHAPES.values())
        return {"head_probe": len(PROBES) * probe.model.n_layers * probe.model.n_heads, "probe_loss": n_blocks}

    def seconds(self, probe: Probe) -> float:
        from ingest.recorders.probes import probe_tables
        from ingest.timing import timed

        return len(PROBES) * timed(lambda: probe_tables(probe.model, PROBES[0], probe.request.bos, probe.request.seed))


def compute(worker: "Worker", progress: "Progress", *, probe: str, bos: str, seed: int) -> "Tables":
    from ingest.recorders.probes import probe_tables

    tables = probe_tables(worker.model, probe, bos, seed)
    progress(1)
    return tables


PASS = HeadProbe()
