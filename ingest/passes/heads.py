"""Passes over attention heads and the paths through them (Elhage et al. 2021; Clark et al. 2019)."""

import click

from ingest.passes.base import PlannedPass, flag
from schema.registry import key_by_name


class Circuit(PlannedPass):
    """Circuits in the weights: what each head copies, looks for, reads and writes, and which heads and which neurons read each other; one shard per layer."""

    name = "circuit"
    after = ("weights", "head_statistics")
    options = (flag("circuit", "Read circuits in the weights: what each head copies and looks for, and which heads and neurons read each other."),)
    is_repeatable = False
    reads_heads = True
    work = "ingest.recorders.circuits:Circuit"


class HeadProbe(PlannedPass):
    """What each attention head looks at in repeated random tokens, and how well the model predicts them (Olsson et al. 2022); one shard per probe."""

    name = "head_probe"
    after = ("weights",)
    is_repeatable = False
    reads_heads = True
    options = (flag("head-probe", "Probe what each attention head looks at with random tokens that repeat."),)
    work = "ingest.recorders.repeated_tokens:HeadProbe"


class HeadRelation(PlannedPass):
    """How often each attention head looks from a word back to a word related to it, compared with the best fixed offset (Clark et al. 2019)."""

    name = "head_relation"
    after = ("weights", "word")
    reads = ("word", "position", "sequence", "document")
    needs_corpus = True
    reads_heads = True
    options = (flag("head-relation", "Compare where each attention head looks with the relations of the words."),)
    work = "ingest.recorders.head_relations:HeadRelation"


class DirectPath(PlannedPass):
    """Next-token predictions of the direct path, past all blocks, and how close they are to the bigrams of each corpus (Elhage et al. 2021).

    Pass with one run over the vocabulary, and one run per corpus over the corpus's tokens. Bigrams are counted from the positions that the sweep stored.
    """

    name = "direct_path"
    after = ("weights", "sweep")
    reads = ("position", "sequence", "document")
    is_repeatable = False
    options = (flag("direct-path", "Read what follows each token by the direct path, and compare it with the bigrams of the corpus."),)
    work = "ingest.recorders.direct_path:DirectPath"


class SkipTrigram(PlannedPass):
    """Skip-trigrams of a layer's heads: the tokens that look at each token, the tokens that it promotes, and the largest triples (Elhage et al. 2021).

    The listed destinations and outs, and all tokens of the triples, are frequent in the atlas's text. One run per layer, one shard per head.
    Pass that uses only the token counts of a text, to leave out rare tokens. The model has not learned what follows them, so they would lead every list.
    """

    name = "skip_trigram"
    after = ("sweep", "head_statistics")
    reads = ("position",)
    reads_heads = True
    options = (
        click.Option(
            ["--skip-trigram"],
            type=click.IntRange(0),
            multiple=True,
            metavar="LAYER",
            help="Read the skip-trigrams of a layer's heads; 0 is the layer that reads tokens themselves. May be given for several layers.",
        ),
        click.Option(
            ["--skip-trigram-seen"],
            type=click.IntRange(0),
            default=10,
            show_default=True,
            metavar="N",
            help="List only tokens that occur at least N times in the atlas's text; 0: all tokens.",
        ),
    )
    work = "ingest.recorders.skip_trigrams:SkipTrigram"


class TermLoss(PlannedPass):
    """Loss of an attention-only model with paths through no head, one head or more (Elhage et al. 2021). A model whose FFNs write to the stream is refused."""

    name = "term_loss"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    reads_heads = True
    options = (flag("term-loss", "Compute the loss of a model of attention alone with paths through no head, one head or more."),)
    work = "ingest.recorders.term_losses:TermLoss"


PASSES = key_by_name(Circuit(), HeadProbe(), HeadRelation(), DirectPath(), SkipTrigram(), TermLoss())
