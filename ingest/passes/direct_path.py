"""What follows each token past all blocks, one run, and how near that is to the bigrams of each corpus, one run a corpus (Elhage et al. 2021)."""

from ingest.passes.base import PlannedPass, flag


class DirectPath(PlannedPass):
    """Pass with one run over the vocabulary, and one for each corpus over its tokens, whose bigrams are counted from the positions that the sweep stored."""

    name = "direct_path"
    after = ("weights", "sweep")
    reads = ("position", "sequence", "document")
    is_repeatable = False
    options = (flag("direct-path", "Read what follows each token by the direct path, and compare it with the bigrams of the corpus."),)
    work = "ingest.recorders.direct_path:DirectPath"


PASS = DirectPath()
