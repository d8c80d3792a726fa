"""What each attention head looks at in repeated random tokens, and how well the model predicts them (Olsson et al. 2022); one shard per probe."""

from ingest.passes.base import PlannedPass, flag


class HeadProbe(PlannedPass):
    name = "head_probe"
    after = ("weights",)
    is_repeatable = False
    reads_heads = True
    options = (flag("head-probe", "Probe what each attention head looks at with random tokens that repeat."),)
    work = "ingest.recorders.repeated_tokens:HeadProbe"


PASS = HeadProbe()
