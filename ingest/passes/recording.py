"""Passes that record while the text is read, and share its forward passes."""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import RecordingPass, flag
from schema.errors import AtlasError
from schema.open.lake import is_lake
from schema.registry import key_by_name
from schema.terms import SITES, STREAM_SITES

if TYPE_CHECKING:
    from ingest.request import Request


class Sweep(RecordingPass):
    """Exact k largest and k smallest coefficients of each key over a corpus, with their moments and a histogram (Geva et al. 2021, section 3).

    The first positions of each sequence are read, but do not count (--skip-first).
    """

    name = "sweep"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(
            ["--triggers"], type=click.IntRange(0, 2**31 - 1), default=50, show_default=True, help="Triggers stored for each key and tail; 0: no sweep."
        ),
        click.Option(
            ["--skip-first"],
            type=click.IntRange(0, 2**31 - 1),
            help="Positions at the start of each sequence that are read, but enter no triggers or statistics.  "
            "[default: as the corpus was swept before, else 1; with --paper 0]",
        ),
        click.Option(
            ["--distinct"],
            type=click.IntRange(0, 2**31 - 1),
            help="Of positions with this many equal last tokens, keep only the best in each list of triggers; 0: keep all.  "
            "[default: as the corpus was swept before, else 0]",
        ),
    )
    work = "ingest.recorders.triggers:Sweep"

    def is_wanted(self, request: "Request") -> bool:
        return request.is_sweep_wanted

    def check(self, request: "Request") -> None:
        skip_first = request.options["skip_first"] or 0
        if skip_first >= request.context:
            raise AtlasError(
                f"--skip-first {skip_first} leaves out whole sequences of --context {request.context}; give a smaller --skip-first, "
                "or --triggers 0 for no sweep"
            )


UPDATES = tuple(site for site in SITES if site not in STREAM_SITES)


class Trace(RecordingPass):
    """States, logit lens, coefficients and sub-updates at a sample of positions (Geva et al. 2021, section 5, and 2022, sections 3 to 5).

    The sample is drawn by a hash of seed, document and place in the document, so it does not depend on the order of the documents.
    """

    name = "trace"
    after = ("weights",)
    reads = ("neuron", "trace")
    needs_corpus = True
    options = (
        click.Option(["--vectors"], type=click.Choice(UPDATES), multiple=True, help="Store these vectors of traced positions too."),
        click.Option(
            ["--coefficients"], type=click.IntRange(1), default=100, show_default=True, help="Largest coefficients stored for each traced position and layer."
        ),
    )
    work = "ingest.recorders.trace_recorder:Trace"

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and request.trace > 0


class Attribution(RecordingPass):
    """Logits of traced positions, as sums over what each part of the model wrote, and the sources that heads look at from there (Elhage et al. 2021).

    Pass separate from the trace, so that attributions can be added to an existing trace.
    """

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


class HeadStatistics(RecordingPass):
    """Where each head looks from every position of the corpus, and how far back, compared with uniform attention (Elhage et al. 2021; Olsson et al. 2022)."""

    name = "head_statistics"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    reads_heads = True
    options = (flag("head-statistics", "Record what each attention head looks at over the corpus, while it is read."),)
    work = "ingest.recorders.heads:HeadStatistics"


class Prediction(RecordingPass):
    """The output head's prediction at every position: the probability of the token that follows, and the most probable token."""

    name = "prediction"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    options = (
        click.Option(
            ["--prediction/--no-prediction"],
            default=None,
            help="Store the model's prediction at every position of the corpus.  [default: if the corpus is swept]",
        ),
    )
    work = "ingest.recorders.predictions:Prediction"

    def is_wanted(self, request: "Request") -> bool:
        asked: bool | None = request.options["prediction"]
        return request.corpus is not None and (request.is_sweep_wanted if asked is None else asked)


class Keys(RecordingPass):
    """Keys of a corpus for `atlas retrieve`, in float16 files beside the atlas (Khandelwal et al. 2020).

    A key is the state that the last FFN reads at a position. Positions before --min-index, and positions that no token follows, have none.
    """

    name = "keys"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    options = (
        flag("keys", "Store the key of every position of the corpus in the folder NAME.keys, for `atlas retrieve`."),
        click.Option(
            ["--min-index"], type=click.IntRange(0), default=1, show_default=True, help="Store no key of positions before this index of their sequence."
        ),
    )
    work = "ingest.recorders.key_entries:Keys"

    def check(self, request: "Request") -> None:
        if request.lake is not None or is_lake(request.target):
            raise AtlasError(f"--keys: keys are stored in a folder beside an atlas file, but {request.target} is a lake; ingest into an atlas file instead")


PASSES = key_by_name(Sweep(), Trace(), Attribution(), HeadStatistics(), Prediction(), Keys())
