"""Birth of induction in a model's training, if `curve.json` is beside its weights (Olsson et al. 2022); one shard."""

from typing import TYPE_CHECKING

from ingest.passes.base import PlannedPass

if TYPE_CHECKING:
    from ingest.request import Request


class TrainingCurve(PlannedPass):
    """Pass that, like `weights`, is part of every ingest of a model that has such a file."""

    name = "training_curve"
    after = ("weights",)
    is_repeatable = False
    work = "ingest.recorders.training_curve:TrainingCurve"

    def is_wanted(self, request: "Request") -> bool:
        from ingest.model.reference.probe import curve

        return bool(curve(request.model))


PASS = TrainingCurve()
