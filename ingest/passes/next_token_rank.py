"""Rank that each value gives to the token that follows its key's top trigger (Geva et al. 2021, figure 5); one shard per layer."""

from ingest.passes.base import PlannedPass, flag


class NextTokenRank(PlannedPass):
    name = "next_token_rank"
    after = ("sweep",)
    reads = ("trigger", "position", "sequence", "next_token_rank")
    needs_corpus = True
    options = (flag("next-token-rank", "Rank the token after each key's top trigger among those its value promotes (part of --paper)."),)
    work = "ingest.recorders.next_token_rank:NextTokenRank"


PASS = NextTokenRank()
