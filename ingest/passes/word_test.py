"""Analogies answered by word vectors, and word similarities compared with people's ratings, on data sets that gensim ships; one shard per space."""

from typing import TYPE_CHECKING

from ingest.passes.base import PlannedPass, flag

if TYPE_CHECKING:
    from ingest.request import Request


class WordTest(PlannedPass):
    name = "word_test"
    after = ("weights", "token_vector")
    is_repeatable = False
    options = (flag("word-tests", "Answer analogies and rank similar words by the embeddings; the sets are those that gensim ships, which must be installed."),)
    work = "ingest.recorders.word_tests:WordTest"

    def check(self, request: "Request") -> None:
        from ingest.text.word_tests import folder

        folder()


PASS = WordTest()
