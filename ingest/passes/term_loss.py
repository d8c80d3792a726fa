"""How well a model of attention alone predicts with paths through few of its heads (Elhage et al. 2021, term importance): one shard a corpus."""

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
