"""Words of a corpus, each with the token that ends it and its labels: part of speech, relation, head and entity.

Labels come from a spaCy pipeline or a CoNLL-U file; words that are only cut at white space have none. One shard per span.
"""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request


class Word(PlannedPass):
    """Pass that labels a corpus from one source only: with two sources, every word would have two rows and be counted twice."""

    name = "word"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(
            ["--words"],
            metavar="SOURCE",
            help="Label the words of the corpus: spacy:PIPELINE, or a CoNLL-U file of its texts. white-space: find the words, without labels.",
        ),
    )
    work = "ingest.recorders.word_rows:Words"

    def check(self, request: "Request") -> None:
        from ingest.recorders.word_rows import file, is_file, tagger
        from ingest.store.committer import work_folder
        from ingest.text.conllu import align_all
        from ingest.text.tagger import pipeline

        if request.corpus is None:
            raise AtlasError("--words needs --corpus, which names the text whose words are labelled")
        if (name := tagger(request)) is not None:
            pipeline(name)
        elif is_file(request) and request.corpus != "-":
            # standard input is aligned when it has been kept
            align_all(file(request), request.open_corpus(work_folder(request.target)).documents())


PASS = Word()
