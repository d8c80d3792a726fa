"""Passes over words, and over the vectors and states of tokens."""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass, flag
from schema.errors import AtlasError
from schema.registry import key_by_name
from schema.terms import PROBE_TASKS

if TYPE_CHECKING:
    from ingest.request import Request


class Word(PlannedPass):
    """Words of a corpus, each with the token that ends it and its labels: part of speech, relation, head and entity.

    Labels come from a spaCy pipeline or a CoNLL-U file; words that are only cut at white space have none. One shard per span.
    Pass that labels a corpus from one source only: with two sources, every word would have two rows and be counted twice.
    """

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


class LinearProbe(PlannedPass):
    """Linear probes of words' labels in each layer, compared with control labels, an untrained model and baselines without states (Hewitt and Liang 2019).

    One shard per task and place of the stream.
    """

    name = "probe"
    after = ("weights", "word")
    reads = ("word", "position", "sequence", "document")
    needs_corpus = True
    options = (
        click.Option(["--probe"], type=click.Choice(PROBE_TASKS), multiple=True, help="Read this label of the words from states, by linear probes."),
        click.Option(["--probe-rank"], type=click.IntRange(min=1), metavar="N", help="Let each probe read at most N directions of a state."),
        click.Option(
            ["--probe-layers"], metavar="LAYERS", default="all", show_default=True, help="Layers whose states the probes read: numbers such as 0,5,9."
        ),
    )
    work = "ingest.recorders.probe_rows:LinearProbe"

    def check(self, request: "Request") -> None:
        from ingest.text.probed_words import chosen_layers

        chosen_layers(request.options["probe_layers"], None)


class TreeProbe(PlannedPass):
    """Structural probes of parse trees in each layer, compared with a chain of neighbouring words and an untrained model (Hewitt and Manning 2019).

    One shard per place of the stream and target.
    """

    name = "tree_probe"
    after = ("weights", "word")
    reads = ("word", "position", "sequence", "document")
    needs_corpus = True
    options = (
        flag("tree-probe", "Look for the parse trees of the words' sentences in the states of --probe-layers, by structural probes."),
        click.Option(
            ["--tree-ranks"], metavar="RANKS", default="64", show_default=True, help="Dimensions of the structural probes: numbers such as 1,4,16,64."
        ),
    )
    work = "ingest.recorders.tree_rows:TreeProbe"

    def check(self, request: "Request") -> None:
        from ingest.text.probed_words import chosen_layers, chosen_ranks

        chosen_layers(request.options["probe_layers"], None)
        chosen_ranks(request.options["tree_ranks"], None)


class TokenVector(PlannedPass):
    """Rows of the input and output embedding as word vectors, and the nearest tokens of each by centred cosine; a shard has up to 8,192 tokens of one space."""

    name = "token_vector"
    after = ("weights",)
    is_repeatable = False
    options = (flag("token-vectors", "Keep each token's embedding as a word vector, with the tokens near it: nearest words and analogies."),)
    work = "ingest.recorders.token_vectors:TokenVector"


class TokenState(PlannedPass):
    """Mean state of each frequent token in up to four layers, and the anisotropy of states in every layer (Ethayarajh 2019); one shard per corpus."""

    name = "token_state"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    options = (flag("token-states", "Store the mean state of each frequent token, and measure the anisotropy of states in each layer."),)
    work = "ingest.recorders.token_states:TokenState"


class WordTest(PlannedPass):
    """Analogies answered by word vectors, and word similarities compared with people's ratings, on data sets that gensim ships; one shard per space."""

    name = "word_test"
    after = ("weights", "token_vector")
    is_repeatable = False
    options = (flag("word-tests", "Answer analogies and rank similar words by the embeddings; the sets are those that gensim ships, which must be installed."),)
    work = "ingest.recorders.word_tests:WordTest"

    def check(self, request: "Request") -> None:
        from ingest.text.word_tests import folder

        folder()


PASSES = key_by_name(Word(), LinearProbe(), TreeProbe(), TokenVector(), TokenState(), WordTest())
