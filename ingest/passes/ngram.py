"""Predictions at every position by n-grams counted in other text (Chen and Goodman 1998).

SQL counts and scores the n-grams in an in-memory database. Documents to be predicted are never counted.
"""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request


class Ngram(PlannedPass):
    """Pass that needs only the model's tokenizer. A document of the predicted corpus is not counted, even if the other corpus contains it too."""

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


PASS = Ngram()
