"""Loss of an attention-only model with paths through no head, one head or more (Elhage et al. 2021). A model whose FFNs write to the stream is refused."""

from ingest.passes.base import PlannedPass, flag


class TermLoss(PlannedPass):
    name = "term_loss"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    reads_heads = True
    options = (flag("term-loss", "Compute the loss of a model of attention alone with paths through no head, one head or more."),)
    work = "ingest.recorders.term_losses:TermLoss"


PASS = TermLoss()
