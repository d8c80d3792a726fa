"""Words with part of speech, relation, head and entity, by a pipeline of spaCy, from a CoNLL-U file or cut at white space, each with the token that
ends it; one shard a span.
"""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request


class Word(PlannedPass):
    """Pass that labels a corpus from one source only: labels of two sources would be taken for more of the same."""

    name = "word"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(
            ["--words"],
            metavar="SOURCE",
            help="Label the words of the corpus: spacy:PIPELINE, or a CoNLL-U file of its texts. white-space: find them, without labels.",
        ),
    )
    work = "ingest.recorders.word_rows:Words"

    def check(self, request: "Request") -> None:
        from ingest.recorders.word_rows import file, is_file, tagger
        from ingest.store.committer import work_folder
        from ingest.text.conllu import align_all
        from ingest.text.tagger import pipeline

        if request.corpus is None:
            raise AtlasError("--words needs --corpus: the text whose words are labelled")
        if (name := tagger(request)) is not None:
            pipeline(name)
        elif is_file(request) and request.corpus != "-":
            # standard input is aligned when it has been kept
            align_all(file(request), request.open_corpus(work_folder(request.target)).documents())


PASS = Word()
