"""Rows of the input and output embedding as word vectors, and the nearest tokens of each by centred cosine; a shard has up to 8,192 tokens of one space."""

from ingest.passes.base import PlannedPass, flag


class TokenVector(PlannedPass):
    name = "token_vector"
    after = ("weights",)
    is_repeatable = False
    options = (flag("token-vectors", "Keep each token's embedding as a word vector, with the tokens near it: nearest words and analogies."),)
    work = "ingest.recorders.token_vectors:TokenVector"


PASS = TokenVector()
