"""Passes that compare the model: with n-grams, with suites of tests, and with itself over its training."""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass
from schema.errors import AtlasError
from schema.registry import key_by_name

if TYPE_CHECKING:
    from ingest.request import Request


class Ngram(PlannedPass):
    """Predictions at every position by n-grams counted in other text (Chen and Goodman 1998).

    SQL counts and scores the n-grams in an in-memory database. Documents to be predicted are never counted.
    Pass that needs only the model's tokenizer. A document of the predicted corpus is not counted, even if the other corpus contains it too.
    """

    name = "ngram"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(["--ngram-split"], metavar="SPLIT", help="Predict every position by n-grams too, counted in this split of --corpus or --ngram-corpus."),
        click.Option(["--ngram-corpus"], metavar="CORPUS", help="Corpus to count n-grams in, named as for --corpus.  [default: that of --corpus]"),
    )
    work = "ingest.recorders.kneser_ney:Ngram"

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["ngram_split"] or request.options["ngram_corpus"])

    def check(self, request: "Request") -> None:
        if request.corpus is None:
            raise AtlasError("--ngram-split and --ngram-corpus need --corpus, which names the text to predict")
        if (request.options["ngram_corpus"] or request.corpus) == "-":
            raise AtlasError("--ngram-split: n-grams cannot be counted in standard input, which can be read only once; name another text (--ngram-corpus FILE)")


class Test(PlannedPass):
    """Tests of a suite: the role and regions of each sentence, and how neurons and predictions differ between compared sentences; one shard per paradigm."""

    name = "test"
    after = ("prediction",)
    is_repeatable = False
    options = (
        click.Option(
            ["--suite"], metavar="SUITE", multiple=True, help="Read this suite's sentences instead of a corpus, as `atlas test` does."
        ),
        click.Option(["--items"], type=click.IntRange(1, 1000), default=150, show_default=True, help="Items of each generated paradigm."),
    )  # fmt: skip
    work = "ingest.recorders.suite_rows:Test"

    def is_wanted(self, request: "Request") -> bool:
        return request.is_suite

    def check(self, request: "Request") -> None:
        whole = {"--cut": request.cut == "tokens", "--document-tokens": request.document_tokens is None, "--every": request.every == 1}
        whole["--max-documents"] = request.max_documents is None
        if cut := [name for name, is_whole in whole.items() if not is_whole]:
            raise AtlasError(f"--suite: all sentences of a test are read, and each as a whole; leave {cut[0]} out")


class TrainingCurve(PlannedPass):
    """Birth of induction in a model's training, if `curve.json` is beside its weights (Olsson et al. 2022); one shard.

    Pass that, like `weights`, is part of every ingest of a model that has such a file.
    """

    name = "training_curve"
    after = ("weights",)
    is_repeatable = False
    work = "ingest.recorders.training_curve:TrainingCurve"

    def is_wanted(self, request: "Request") -> bool:
        from ingest.model.reference.probe import curve

        return bool(curve(request.model))


PASSES = key_by_name(Ngram(), Test(), TrainingCurve())
