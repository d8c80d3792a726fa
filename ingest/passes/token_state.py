"""Mean state of each frequent token in up to four layers, and the anisotropy of states in every layer (Ethayarajh 2019); one shard per corpus."""

from ingest.passes.base import PlannedPass, flag


class TokenState(PlannedPass):
    name = "token_state"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    options = (flag("token-states", "Store the mean state of each frequent token, and measure the anisotropy of states in each layer."),)
    work = "ingest.recorders.token_states:TokenState"


PASS = TokenState()
