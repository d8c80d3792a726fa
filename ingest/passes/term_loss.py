"""How well a model of attention alone predicts with paths through none, one or more of its heads (Elhage et al. 2021); a model whose FFNs write is refused."""

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
