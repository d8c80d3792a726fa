"""Tokens that random vectors and whole FFN updates promote, as controls for the values (Geva et al. 2022, section 4); one shard per layer."""

from ingest.passes.base import PlannedPass, flag


class ControlToken(PlannedPass):
    name = "control_token"
    after = ("trace",)
    reads = ("trace", "residual_state", "position", "control_token")
    options = (flag("control-token", "Project random vectors and whole FFN updates, which values are compared with (part of --paper)."),)
    work = "ingest.recorders.controls:ControlToken"


PASS = ControlToken()
