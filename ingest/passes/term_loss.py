"""Loss of an attention-only model with paths through no head, one head or more (Elhage et al. 2021). A model whose FFNs write to the stream is refused."""

from ingest.passes.base import PlannedPass, flag


class TermLoss(PlannedPass):
    name = "term_loss"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    reads_heads = True
    options = (flag("term-loss", "Tell how well a model of attention alone predicts with paths through none, one or more of its heads."),)
    work = "ingest.recorders.term_losses:TermLoss"


PASS = TermLoss()
