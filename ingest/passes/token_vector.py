"""The rows of the input and output embedding as word vectors, and the tokens near each by centred cosine; shards of some thousand tokens of a space."""

from ingest.passes.base import PlannedPass, flag


class TokenVector(PlannedPass):
    name = "token_vector"
    after = ("weights",)
    is_repeatable = False
    options = (flag("token-vectors", "Keep each token's embedding as a word vector, with the tokens near it: nearest words and analogies."),)
    work = "ingest.recorders.token_vectors:TokenVector"


PASS = TokenVector()
