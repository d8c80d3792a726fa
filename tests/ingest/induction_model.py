"""A GPT-2 of two layers and two heads, set by hand, that predicts by induction: what its weights come to can be told with a pencil.

The stream has four blocks: token (8 units), position (16), previous (8), out (8). A unit is two numbers coded (+1, -1)/√2, so that every state has mean 0, and
the norms' gains are the lengths that the states have there over √d_model, so that LayerNorm changes nothing. The FFN writes nothing.

    L0H0  looks one position back            token → previous
    L0H1  writes nothing, or position → previous if asked to
    L1H0  token matches previous             token → out
    L1H1  looks at its own position          previous → minus previous
"""

import math

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from ingest.model.models import Model, wrap
from tests.ingest.tiny_models import tiny_tokenizer

N_TOKENS, N_POSITIONS = 8, 16
SHARPNESS = 40.0
"""Score of a match; the sink at index 0 has half of it."""

TOKEN, POSITION, PREVIOUS, OUT = (0, N_TOKENS), (N_TOKENS, N_POSITIONS), (N_TOKENS + N_POSITIONS, N_TOKENS), (2 * N_TOKENS + N_POSITIONS, N_TOKENS)
D_MODEL = 2 * (3 * N_TOKENS + N_POSITIONS)
D_HEAD = D_MODEL // 2


def units(block: tuple[int, int]) -> Tensor:
    """The unit vectors of a block, [units, d_model]."""
    start, n = block
    found = torch.zeros(n, D_MODEL)
    for i in range(n):
        found[i, 2 * (start + i)], found[i, 2 * (start + i) + 1] = 1 / math.sqrt(2), -1 / math.sqrt(2)
    return found


def induction_model(*, writes_position: bool = False) -> Model:
    config = GPT2Config(
        vocab_size=N_TOKENS, n_positions=N_POSITIONS, n_embd=D_MODEL, n_layer=2, n_head=2, n_inner=4, layer_norm_epsilon=1e-12, scale_attn_weights=False,
        tie_word_embeddings=False, bos_token_id=0, eos_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    hf = GPT2LMHeadModel(config)
    token, position, previous, out = units(TOKEN), units(POSITION), units(PREVIOUS), units(OUT)
    with torch.no_grad():
        for parameter in hf.parameters():
            parameter.zero_()
        body = hf.transformer
        body.wte.weight.copy_(token)
        body.wpe.weight.copy_(position)
        # a state is a token and a position in layer 0, and a previous token too in layer 1
        for norm, n_units in ((body.h[0].ln_1, 2), (body.h[1].ln_1, 3), (body.h[0].ln_2, 2), (body.h[1].ln_2, 3), (body.ln_f, D_MODEL)):
            norm.weight.fill_(math.sqrt(n_units / D_MODEL))
        hf.lm_head.weight.copy_(out)
        set_head(body.h[0], 0, SHARPNESS * position[1:], position[:-1], token, previous)
        if writes_position:
            set_head(body.h[0], 1, position[:0], position[:0], position[:N_TOKENS], previous)
        set_head(body.h[1], 0, SHARPNESS * token, torch.cat([previous, position[:1]]), token, out)
        set_head(body.h[1], 1, SHARPNESS * position, position, previous, -previous)
        # the sink: every query has half of a match for the key of index 0, which no token asks for
        body.h[1].attn.c_attn.bias[N_TOKENS] = SHARPNESS / 2
    return wrap(hf, tiny_tokenizer(), "induction")


def set_head(block: torch.nn.Module, head: int, query: Tensor, key: Tensor, read: Tensor, written: Tensor) -> None:
    """Rows of a head, [n, d_model] each: a query's match its key's in their order, and what is read by a row is written as its like."""
    for place, part in enumerate((query, key, read)):
        at = place * D_MODEL + head * D_HEAD
        block.attn.c_attn.weight[:, at : at + len(part)] = part.T
    block.attn.c_proj.weight[head * D_HEAD : head * D_HEAD + len(written)] = written
