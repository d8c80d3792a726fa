"""How often each attention head looks from a word back to a word related to it, compared with the best fixed offset (Clark et al. 2019)."""

from ingest.passes.base import PlannedPass, flag


class HeadRelation(PlannedPass):
    name = "head_relation"
    after = ("weights", "word")
    reads = ("word", "position", "sequence", "document")
    needs_corpus = True
    reads_heads = True
    options = (flag("head-relation", "Compare where each attention head looks with the relations of the words."),)
    work = "ingest.recorders.head_relations:HeadRelation"


PASS = HeadRelation()
