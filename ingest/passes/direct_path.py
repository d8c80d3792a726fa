"""Next-token predictions of the direct path, past all blocks, and how close they are to the bigrams of each corpus (Elhage et al. 2021)."""

from ingest.passes.base import PlannedPass, flag


class DirectPath(PlannedPass):
    """Pass with one run over the vocabulary, and one run per corpus over the corpus's tokens. Bigrams are counted from the positions that the sweep stored."""

    name = "direct_path"
    after = ("weights", "sweep")
    reads = ("position", "sequence", "document")
    is_repeatable = False
    options = (flag("direct-path", "Read what follows each token by the direct path, and compare it with the bigrams of the corpus."),)
    work = "ingest.recorders.direct_path:DirectPath"


PASS = DirectPath()
