"""What each token of the vocabulary is to the blocks: its own vector in the first, and in the later ones its state after the first block.

That block is read without a text: its heads look at the token alone, and learned positions take no part.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

from ingest.model.embedding import token_rows
from ingest.model.folding import ffn_norm, layer_norm, over_scale
from ingest.model.heads import layer_heads
from ingest.model.models import Model
from ingest.model.modules import in_float32

CHUNK = 4096
"""Tokens whose coefficients are held at once."""


def n_tokens(model: Model) -> int:
    """Tokens that the model can both read and predict."""
    return min(model.n_embeddings, model.d_vocab)


def attention_to_itself(model: Model, x: Tensor) -> Tensor:
    """What the first block's attention adds to states [n, d_model] that look at themselves alone."""
    attention, heads = model.architecture.attention, layer_heads(model, 0)
    read = x if attention.norm is None else in_float32(model.layer_module(0, attention.norm), model.device)(x)
    values = torch.einsum("nm,hdm->nhd", read, heads.w_v) + (0 if heads.b_v is None else heads.b_v)
    written = torch.einsum("nhd,hmd->nm", values.repeat_interleave(model.n_heads // model.n_kv_heads, dim=1), heads.w_o)
    written = written if heads.b_o is None else written + heads.b_o
    if attention.after_norm is not None:
        written = in_float32(model.layer_module(0, attention.after_norm), model.device)(written)
    return written * model.residual_multiplier


def ffn_output(model: Model, x: Tensor) -> Tensor:
    """What the first block's FFN adds at states [n, d_model]."""
    ffn, norm = model.architecture.ffn, ffn_norm(model, 0)
    read = x if norm is None else in_float32(norm, model.device)(x)

    def pre(path: str) -> Tensor:
        bias = model.bias(0, path)
        return read @ model.rows(0, path).T + (0 if bias is None else bias)

    act = ACT2FN[model.activation]
    coefficients = act(pre(ffn.up)) if ffn.gate is None else act(pre(ffn.gate)) * pre(ffn.up)
    bias = model.bias(0, ffn.down)
    raw = coefficients @ model.rows(0, ffn.down).T + (0 if bias is None else bias)
    if ffn.after_norm is not None:
        raw = in_float32(model.layer_module(0, ffn.after_norm), model.device)(raw)
    return raw * model.residual_multiplier


def after_first_block(model: Model, x: Tensor) -> Tensor:
    """resid_post of layer 0 for tokens' rows [n, d_model], each looking at itself alone."""
    attended = x + attention_to_itself(model, x)
    return attended + ffn_output(model, x if model.is_parallel else attended)


def of_every_token(model: Model, rows: Callable[[Tensor], Tensor]) -> Tensor:
    """What `rows` gives of some token ids, [n, d_model], of the whole vocabulary: [n_tokens, d_model]; it is held once."""
    found = model.unembedding.new_empty(n_tokens(model), model.d_model)
    for ids in torch.arange(len(found)).split(CHUNK):
        found[ids[0] : ids[-1] + 1] = rows(ids)
    return found


def states_before(model: Model, layer: int, norm: nn.Module | None = None) -> Tensor:
    """Every token as a layer finds it, [n_tokens, d_model]: its own vector in the first, and in the later ones its state after the first block.

    norm: whose scale they are divided by, if one is given.
    """

    def states(ids: Tensor) -> Tensor:
        rows = token_rows(model, ids)
        return over_scale(rows if layer == 0 else after_first_block(model, rows), norm)

    return of_every_token(model, states)


@dataclass(frozen=True, eq=False)
class TokenStates:
    """Every token as the blocks read it and as the output head does, and their products over the vocabulary.

    The states take three times the memory of the embedding.
    """

    sources: tuple[Tensor, Tensor]
    """X̂, tokens over their own scale, [n_tokens, d_model]: as the first block finds them, and as the later ones do."""
    readers: Tensor
    """Û less its mean over the vocabulary, [n_tokens, d_model]: the softmax sees no more of it."""
    copying: tuple[Tensor, Tensor]
    """X̂ᵀ·Û, [d_model, d_model] float64, of either X̂."""
    copying_uncentred: Tensor
    """The same of the first X̂ and Û as it is."""
    alike: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
    """X̂ᵀ·X̂ of each two, less their means: [d_model, d_model] float64."""

    def of(self, layer: int) -> int:
        """Which of the sources a layer finds."""
        return min(layer, 1)


def token_states(model: Model) -> TokenStates:
    norm = layer_norm(model, 0, model.architecture.attention.norm)
    first, later = (states_before(model, layer, norm) for layer in (0, 1))
    readers = of_every_token(model, lambda ids: model.logit_readers(ids.to(model.device)))
    mean = mean_row(readers)
    uncentred = product(first, readers)
    copying = centred(uncentred, first, mean), centred(product(later, readers), later, mean)
    own, across, others = (centred(product(x, y), x, mean_row(y)) for x, y in ((first, first), (first, later), (later, later)))
    return TokenStates((first, later), readers.sub_(mean.float()), copying, uncentred, ((own, across), (across.T, others)))


def product(x: Tensor, y: Tensor) -> Tensor:
    """xᵀ·y of [n, d_model] each, in float64."""
    total = torch.zeros(x.shape[1], y.shape[1], dtype=torch.float64, device=x.device)
    for one, other in zip(x.split(CHUNK), y.split(CHUNK), strict=True):
        total += one.double().T @ other.double()
    return total


def centred(total: Tensor, x: Tensor, mean: Tensor) -> Tensor:
    """xᵀ·y less the means of both. mean: of y."""
    return total - mean_row(x).outer(mean) * len(x)


def mean_row(x: Tensor) -> Tensor:
    """[n, d_model] to [d_model] float64."""
    return torch.stack([part.double().sum(0) for part in x.split(CHUNK)]).sum(0) / len(x)
