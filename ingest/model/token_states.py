"""States of every token of the vocabulary as the blocks read them: in the first block the token's own vector, in later blocks its state after the first block.

The first block is computed without a text: its heads look at the token alone, and learned positions take no part.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN

from ingest.model.embedding import token_rows
from ingest.model.folding import ffn_norm, layer_norm, over_scale
from ingest.model.heads import layer_heads
from ingest.model.models import Model
from ingest.model.modules import in_float32

CHUNK = 1024
"""Number of tokens whose coefficients, or logit readers, are in memory at once."""


def n_tokens(model: Model) -> int:
    """Count the tokens that the model can both read and predict."""
    return min(model.n_embeddings, model.d_vocab)


def attention_to_itself(model: Model, x: Tensor) -> Tensor:
    """Compute what the first block's attention adds to states [n, d_model] that look at themselves alone."""
    attention, heads = model.attention(0), layer_heads(model, 0)
    read = x if attention.norm is None else in_float32(model.layer_module(0, attention.norm), model.device)(x)
    values = torch.einsum("nm,hdm->nhd", read, heads.w_v) + (0 if heads.b_v is None else heads.b_v)
    written = torch.einsum("nhd,hmd->nm", values.repeat_interleave(model.n_heads // model.n_kv_heads, dim=1), heads.w_o)
    written = written if heads.b_o is None else written + heads.b_o
    if attention.after_norm is not None:
        written = in_float32(model.layer_module(0, attention.after_norm), model.device)(written)
    return written * model.residual_multiplier


def ffn_output(model: Model, x: Tensor) -> Tensor:
    """Compute what the first block's FFN adds at states [n, d_model]."""
    ffn, norm = model.ffn(0), ffn_norm(model, 0)
    read = x if norm is None else in_float32(norm, model.device)(x)

    act, gate_keys = ACT2FN[model.activation], model.gate_keys(0)
    up = F.linear(read, model.keys(0), model.key_bias(0, "up"))
    coefficients = act(up) if gate_keys is None else act(F.linear(read, gate_keys, model.key_bias(0, "gate"))) * up
    raw = F.linear(coefficients, model.rows(0, ffn.down), model.bias(0, ffn.down))
    if ffn.after_norm is not None:
        raw = in_float32(model.layer_module(0, ffn.after_norm), model.device)(raw)
    return raw * model.residual_multiplier


def after_first_block(model: Model, x: Tensor) -> Tensor:
    """Compute resid_post of layer 0 for tokens' rows [n, d_model], each looking at itself alone."""
    attended = x + attention_to_itself(model, x)
    return attended + ffn_output(model, x if model.is_parallel else attended)


def of_every_token(model: Model, rows: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply `rows`, from token ids to [n, d_model], to the whole vocabulary: [n_tokens, d_model]; the result is in memory once."""
    found = model.unembedding.new_empty(n_tokens(model), model.d_model)
    for ids in torch.arange(len(found)).split(CHUNK):
        found[ids[0] : ids[-1] + 1] = rows(ids)
    return found


def states_of(model: Model, layer: int, ids: Tensor, norm: nn.Module | None) -> Tensor:
    """Compute the states of some tokens as a layer reads them: ids [n] to [n, d_model]. norm: as in `states_before`.

    In the first layer these are the tokens' own vectors, in later layers their states after the first block.
    """
    rows = token_rows(model, ids)
    return over_scale(model, rows if layer == 0 else after_first_block(model, rows), norm)


def states_before(model: Model, layer: int, norm: nn.Module | None = None) -> Tensor:
    """Compute the states of all tokens as a layer reads them, [n_tokens, d_model]. norm: if given, the states are divided by its scale."""
    return of_every_token(model, lambda ids: states_of(model, layer, ids, norm))


class TokenStates:
    """Matrices with a row for each token: X̂, as the blocks read the token, and Û, as the output head reads it; and the products of these matrices.

    A row of X̂ is a token's state divided by its own scale. X̂ has two kinds: that of the first block and that of later blocks. Each is as large as the
    embedding, so only one of them is in memory at a time.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.norm = model, layer_norm(model, 0, model.attention(0).norm)
        self.held: dict[int, Tensor] = {}
        totals, (first, later, mean) = self.products()
        n = n_tokens(model)
        self.mean_reader = mean.float()
        self.copying_uncentred = totals[0]
        """X̂ᵀ·Û, [d_model, d_model] float64, of the first block's X̂, without a mean subtracted from Û."""
        self.copying = totals[0] - first.outer(mean) * n, totals[1] - later.outer(mean) * n
        """X̂ᵀ·Û of the first block's X̂ and of the later blocks' X̂, with the mean over tokens subtracted from Û."""
        own, across, others = totals[2] - first.outer(first) * n, totals[3] - first.outer(later) * n, totals[4] - later.outer(later) * n
        self.alike = (own, across), (across.T, others)
        """X̂ᵀ·X̂ of each pair of kinds (0: first block, 1: later blocks), their means subtracted: alike[i][j] is [d_model, d_model] float64."""

    def products(self) -> tuple[list[Tensor], list[Tensor]]:
        """Compute the products of X̂ and Û, each [d_model, d_model], and their means, each [d_model]; all float64.

        With A the X̂ of the first block and B that of later blocks, the products are Aᵀ·Û, Bᵀ·Û, Aᵀ·A, Aᵀ·B and Bᵀ·B; the means are of A, B and Û.
        """
        model, n = self.model, n_tokens(self.model)
        totals = [torch.zeros(model.d_model, model.d_model, dtype=torch.float64, device=model.device) for _ in range(5)]
        sums = torch.zeros(3, model.d_model, dtype=torch.float64, device=model.device)
        for ids in torch.arange(n).split(CHUNK):
            first, later = (states_of(model, layer, ids, self.norm).double() for layer in (0, 1))
            readers = model.logit_readers(ids.to(model.device)).double()
            for total, x, y in zip(totals, (first, later, first, first, later), (readers, readers, first, later, later), strict=True):
                total.addmm_(x.T, y)
            sums += torch.stack([first.sum(0), later.sum(0), readers.sum(0)])
        return totals, list(sums / n)

    def readers(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield Û in chunks, less its mean over the vocabulary, which changes no probability: a slice of token ids, and their rows [n, d_model]."""
        for ids in torch.arange(n_tokens(self.model)).split(CHUNK):
            yield slice(int(ids[0]), int(ids[-1]) + 1), self.model.logit_readers(ids.to(self.model.device)) - self.mean_reader

    def centred_logits(self, directions: Tensor) -> Tensor:
        """Compute what directions [n, d_model] add to every token's logit, less the mean over tokens: [n, n_tokens].

        The division by the last state's scale is left out.
        """
        found = directions.new_empty(len(directions), n_tokens(self.model))
        for ids, rows in self.readers():
            found[:, ids] = directions @ rows.T
        return found

    def source_kind(self, layer: int) -> int:
        """Tell which of the two kinds of X̂ a layer reads: 0 in the first layer, 1 in later layers."""
        return min(layer, 1)

    def sources(self, layer: int) -> Tensor:
        """Compute X̂ as a layer reads it, [n_tokens, d_model]; it stays in memory until the other kind is requested."""
        own = self.source_kind(layer)
        if own not in self.held:
            self.held.clear()
            self.held[own] = states_before(self.model, own, self.norm)
        return self.held[own]
