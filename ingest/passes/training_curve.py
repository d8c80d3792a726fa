"""How a model came to do induction, where `curve.json` lies beside its weights (Olsson et al. 2022); one shard."""

from typing import TYPE_CHECKING

from ingest.passes.base import PlannedPass

if TYPE_CHECKING:
    from ingest.request import Request


class TrainingCurve(PlannedPass):
    """It is of every ingest of such a model, as the weights are."""

    name = "training_curve"
    after = ("weights",)
    is_repeatable = False
    work = "ingest.recorders.training_curve:TrainingCurve"

    def is_wanted(self, request: "Request") -> bool:
        from ingest.model.reference.probe import curve

        return bool(curve(request.model))


PASS = TrainingCurve()
