"""What n-grams of other text predict at every position, counted and scored in SQL in a database in memory; documents that are predicted are never
counted (Chen and Goodman 1998).
"""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request


class Ngram(PlannedPass):
    """Pass that needs only the model's tokens. Documents of the corpus itself are left out of the counts, wherever else they occur."""

    name = "ngram"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(["--ngram-split"], metavar="SPLIT", help="Predict every position by counting too, in this split of the corpus or of --ngram-corpus."),
        click.Option(["--ngram-corpus"], metavar="CORPUS", help="The corpus to count in, as --corpus names one.  [default: that of --corpus]"),
    )
    work = "ingest.recorders.kneser_ney:Ngram"

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["ngram_split"] or request.options["ngram_corpus"])

    def check(self, request: "Request") -> None:
        if request.corpus is None:
            raise AtlasError("--ngram-split and --ngram-corpus need --corpus: the text that is predicted")
        if (request.options["ngram_corpus"] or request.corpus) == "-":
            raise AtlasError("--ngram-split: standard input can be read once; count in another text (--ngram-corpus FILE)")


PASS = Ngram()
