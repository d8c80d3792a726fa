"""One layer's attention by head: its weights, where each head looks, and what each head writes.

All of this is computed in float32 from the weights and the facts of the model's entry (`ingest/model/facts.py`), without the model's own attention code. A
head's output is taken right after the output projection: a norm that follows and the residual multiplier are not applied.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.modules import in_float32
from ingest.model.positions import rotation
from ingest.model.score_positions import alibi_slopes, rotate_pairs

HIDDEN = -1e30
"""Score of a source that a destination may not look at. Its weight is then exactly 0, and weight times score is 0, where -inf would give NaN."""


@dataclass(frozen=True, eq=False)
class Heads:
    """One layer's weights by head, float32: q = w_q·x + b_q, k and v likewise, and a head writes w_o·(its pattern times v)."""

    w_q: Tensor
    """[n_heads, d_head, d_model]"""
    w_k: Tensor
    """[n_kv_heads, d_head, d_model]"""
    w_v: Tensor
    """[n_kv_heads, d_head, d_model]"""
    w_o: Tensor
    """[n_heads, d_model, d_head]"""
    b_q: Tensor | None
    """[n_heads, d_head]; None if the projection has no bias. The other biases are None in the same case."""
    b_k: Tensor | None
    """[n_kv_heads, d_head]"""
    b_v: Tensor | None
    """[n_kv_heads, d_head]"""
    b_o: Tensor | None
    """[d_model]: the bias that attention adds beside its heads."""


def rows_of(model: Model, fused: Tensor, part: Literal["q", "k", "v"]) -> Tensor:
    """Select the rows of q, k or v, [heads, d_head, …], from the weight or bias of the projection that computes it, [rows, …]."""
    layout, place = model.attention(0).layout, "qkv".index(part)
    if layout == "heads":
        return fused.unflatten(0, (model.n_heads, 3, model.d_head))[:, place]
    if layout == "groups":
        groups = fused.unflatten(0, (model.n_kv_heads, -1, model.d_head))
        return groups[:, :-2].flatten(0, 1) if part == "q" else groups[:, -2 if part == "k" else -1]
    if layout == "blocks":
        fused = fused.split([n * model.d_head for n in (model.n_heads, model.n_kv_heads, model.n_kv_heads)])[place]
    return fused.unflatten(0, (-1, model.d_head))


def by_head(model: Model, projection: Tensor, part: Literal["q", "k", "v"]) -> Tensor:
    """Select q, k or v, [heads, batch, seq, d_head] float32 on the model's device, from the output of its projection, [batch, seq, rows]."""
    return rows_of(model, projection.to(model.device).movedim(-1, 0), part).movedim(1, -1).float()


def layer_heads(model: Model, layer: int) -> Heads:
    """Read a layer's weights by head, on the model's device; they are views of the parameters if those are float32 and on that device."""
    attention = model.attention(layer)

    def projection(part: Literal["q", "k", "v"]) -> tuple[Tensor, Tensor | None]:
        path = getattr(attention, part)
        bias = model.bias(layer, path)
        return rows_of(model, model.rows(layer, path), part), None if bias is None else rows_of(model, bias, part)

    (w_q, b_q), (w_k, b_k), (w_v, b_v) = projection("q"), projection("k"), projection("v")
    w_o = model.rows(layer, attention.o).unflatten(1, (model.n_heads, model.d_head)).transpose(0, 1)
    return Heads(w_q, w_k, w_v, w_o, b_q, b_k, b_v, model.bias(layer, attention.o))


def for_each_head(model: Model, x: Tensor) -> Tensor:
    """Repeat [n_kv_heads, …] to [n_heads, …]: head h uses the keys and values of head ⌊h·n_kv_heads/n_heads⌋."""
    return x.repeat_interleave(model.n_heads // model.n_kv_heads, dim=0)


def attention_input(model: Model, layer: int, resid_pre: Tensor) -> Tensor:
    """Compute the input of the q, k and v projections, float32: the state that enters the block, [..., d_model], normed if a norm precedes attention."""
    path = model.attention(layer).norm
    x = resid_pre.to(model.device).float()
    return x if path is None else in_float32(model.layer_module(layer, path), model.device)(x)


def project_by_head(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply x [batch, seq, d_model] by each head's rows, and add the bias if there is one: [heads, batch, seq, d_head]."""
    rows = torch.einsum("bsm,hdm->hbsd", x, weight)
    return rows if bias is None else rows + bias[:, None, None]


def apply_qk_norm(x: Tensor, norm: Callable[[Tensor], Tensor], is_joint: bool) -> Tensor:
    """Apply a norm to q or k, [heads, batch, seq, d_head]: to each head by itself, or to all heads jointly."""
    if not is_joint:
        return norm(x)
    joint: Tensor = norm(x.movedim(0, -2).flatten(-2))
    return joint.unflatten(-1, (x.shape[0], -1)).movedim(-2, 0)


def unrotated_queries_and_keys(model: Model, layer: int, x: Tensor, destinations: Tensor) -> tuple[Tensor, Tensor]:
    """Compute q of every head at the destinations, and k at all positions, after bias and norm but before rotation.

    x: the attention input, [batch, seq, d_model]; destinations: [n]. Returns [n_heads, batch, n, d_head] and [n_kv_heads, batch, seq, d_head].
    """
    heads = layer_heads(model, layer)
    return behind_norms(model, layer, project_by_head(x[:, destinations], heads.w_q, heads.b_q), project_by_head(x, heads.w_k, heads.b_k))


def behind_norms(model: Model, layer: int, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Apply the norms of q and k, if the model has them, to both projections by head, [heads, batch, n, d_head]."""
    attention = model.attention(layer)
    q_norm, k_norm = attention.q_norm(model.hf.config), attention.k_norm(model.hf.config)
    if q_norm is not None:
        q = apply_qk_norm(q, in_float32(model.layer_module(layer, q_norm), model.device), attention.is_qk_norm_joint)
    if k_norm is not None:
        k = apply_qk_norm(k, in_float32(model.layer_module(layer, k_norm), model.device), attention.is_qk_norm_joint)
    return q, k


def queries_and_keys(model: Model, layer: int, x: Tensor, destinations: Tensor) -> tuple[Tensor, Tensor]:
    """Compute q at the destinations, [n_heads, batch, n, d_head], and k at all positions, [n_heads, batch, seq, d_head], after rotation.

    The arguments are those of `unrotated_queries_and_keys`. k is repeated for each head that uses it.
    """
    return rotate_queries_and_keys(model, layer, *unrotated_queries_and_keys(model, layer, x, destinations), destinations)


def rotate_queries_and_keys(model: Model, layer: int, q: Tensor, k: Tensor, destinations: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate the q and k that `unrotated_queries_and_keys` returns, and repeat k for each head that uses it."""
    rotary = model.attention(layer).rotary
    if rotary is not None:
        cosine, sine = rotation(model, rotary, layer, torch.arange(k.shape[2], device=model.device))
        q = rotate_pairs(q, cosine[destinations], sine[destinations], rotary.is_adjacent)
        k = rotate_pairs(k, cosine, sine, rotary.is_adjacent)
    return q, for_each_head(model, k)


def score_scale(model: Model, layer: int) -> float:
    """Return the factor by which q·k is multiplied."""
    scale = model.attention(layer).scale(model.hf.config, layer)
    return model.d_head**-0.5 if scale is None else float(scale)


def visible_mask(destinations: Tensor, n_sources: int, window: int | None) -> Tensor:
    """Mark the sources j < n_sources that each destination i sees, those with 0 ≤ i - j < window: [n] to [n, n_sources] of booleans."""
    distance = destinations[:, None] - torch.arange(n_sources, device=destinations.device)
    return distance >= 0 if window is None else (distance >= 0) & (distance < window)


def scores(model: Model, layer: int, x: Tensor, destinations: Tensor) -> Tensor:
    """Compute the attention scores of some destinations before the softmax, [n_heads, batch, n, seq]; HIDDEN for sources that they may not look at.

    x: the attention input, [batch, seq, d_model]; destinations: [n] indices.
    """
    return attention_scores(model, layer, *queries_and_keys(model, layer, x, destinations), destinations, slice(None))


def attention_scores(model: Model, layer: int, q: Tensor, k: Tensor, destinations: Tensor, heads: slice) -> Tensor:
    """Compute `scores` of some heads from their queries, [heads, batch, n, d_head], and from the keys of the first positions, [heads, batch, seq, d_head].

    ALiBi's penalty is counted from the destination: the score of its own position loses nothing.
    """
    attention, config = model.attention(layer), model.hf.config
    softcap = attention.softcap(config)
    found = q * score_scale(model, layer) @ k.mT
    if softcap is not None:
        found = softcap * torch.tanh(found / softcap)
    if attention.is_alibi:
        slopes = torch.tensor((attention.slopes(config) or alibi_slopes(model.n_heads))[heads]).to(found.device)
        found -= slopes[:, None, None, None] * (destinations[:, None] - torch.arange(k.shape[2], device=found.device))
    return found.masked_fill_(~visible_mask(destinations, k.shape[2], attention.window(config, layer)), HIDDEN)


def pattern(model: Model, layer: int, resid_pre: Tensor) -> Tensor:
    """Compute where each head looks: attention weights [batch, n_heads, seq, seq], destination before source, each row summing to 1.

    resid_pre: the states that enter the block, [batch, seq, d_model], from the sequence's first position on, without padding before it.
    """
    x = attention_input(model, layer, resid_pre)
    return scores(model, layer, x, torch.arange(x.shape[1], device=x.device)).softmax(-1).transpose(0, 1)


def pattern_rows(model: Model, layer: int, resid_pre: Tensor, destinations: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the rows of the attention pattern for some destinations of one sequence, and the attention values that these weights apply to.

    resid_pre: [seq, d_model], as for `pattern`; destinations: [n] indices. Returns the weights, [n, n_heads, seq], and the values W_V·x + b_V, repeated for
    each head that uses them, [n_heads, seq, d_head].
    """
    x, heads = attention_input(model, layer, resid_pre)[None], layer_heads(model, layer)
    return scores(model, layer, x, destinations).softmax(-1)[:, 0].transpose(0, 1), for_each_head(model, project_by_head(x, heads.w_v, heads.b_v))[:, 0]


def head_outputs(model: Model, layer: int, resid_pre: Tensor, weights: Tensor) -> Tensor:
    """Compute the output of each head, [batch, seq, n_heads, d_model]; all heads and `b_o` sum to the output of attention.

    weights: the layer's pattern. The bias of the attention values is part of each head's output, since the rows of a pattern sum to 1.
    """
    heads = layer_heads(model, layer)
    v = for_each_head(model, project_by_head(attention_input(model, layer, resid_pre), heads.w_v, heads.b_v))
    return torch.einsum("bhst,hbtd,hmd->bshm", weights, v, heads.w_o)
