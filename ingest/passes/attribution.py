"""Logits of traced positions, as sums over what each part of the model wrote, and the sources that heads look at from there (Elhage et al. 2021)."""

from typing import TYPE_CHECKING

from ingest.passes.base import RecordingPass, flag
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request


class Attribution(RecordingPass):
    """Pass separate from the trace, so that attributions can be added to an existing trace."""

    name = "attribution"
    after = ("weights",)
    reads = ("attribution",)
    needs_corpus = True
    reads_heads = True
    options = (flag("attribution", "Attribute the predictions at traced positions: logits by part of the model, and the sources that heads look at."),)
    work = "ingest.recorders.attribution_recorder:Attribution"

    def check(self, request: "Request") -> None:
        if not request.trace:
            raise AtlasError("--attribution needs --trace: it attributes the predictions at the positions that --trace samples")


PASS = Attribution()
