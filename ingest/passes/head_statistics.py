"""Where each head looks from every position of the corpus, and how far back, compared with uniform attention (Elhage et al. 2021; Olsson et al. 2022)."""

from ingest.passes.base import RecordingPass, flag


class HeadStatistics(RecordingPass):
    name = "head_statistics"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    reads_heads = True
    options = (flag("head-statistics", "Record what each attention head looks at over the corpus, while it is read."),)
    work = "ingest.recorders.heads:HeadStatistics"


PASS = HeadStatistics()
