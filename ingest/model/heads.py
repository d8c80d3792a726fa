"""One layer's attention by head: its weights, where each head looks, and what each head writes.

Everything comes from the weights and the entry's facts (`ingest/model/facts.py`) and is computed in float32; no code of the model's attention
runs. What a head writes is the output projection's: a norm that follows it and the residual multiplier are not in it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.modules import in_float32
from ingest.model.positions import alibi_slopes, rotate_pairs, rotation

HIDDEN = -1e30
"""The score of what a position may not look at: its weight is exactly 0, and weight times score is no NaN."""


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
    """[n_heads, d_head]; None where there is none, as with the others."""
    b_k: Tensor | None
    """[n_kv_heads, d_head]"""
    b_v: Tensor | None
    """[n_kv_heads, d_head]"""
    b_o: Tensor | None
    """[d_model]: what the layer adds beside its heads."""


def rows_of(model: Model, fused: Tensor, part: Literal["q", "k", "v"]) -> Tensor:
    """Select the rows of q, k or v, [heads, d_head, …], of their projection's weight or bias [rows, …]."""
    layout, place = model.architecture.attention.layout, "qkv".index(part)
    if layout == "heads":
        return fused.unflatten(0, (model.n_heads, 3, model.d_head))[:, place]
    if layout == "blocks":
        fused = fused.split([n * model.d_head for n in (model.n_heads, model.n_kv_heads, model.n_kv_heads)])[place]
    return fused.unflatten(0, (-1, model.d_head))


def by_head(model: Model, projection: Tensor, part: Literal["q", "k", "v"]) -> Tensor:
    """Select q, k or v, [heads, batch, seq, d_head] float32 on the model's device, in what its projection gave, [batch, seq, rows]."""
    return rows_of(model, projection.to(model.device).movedim(-1, 0), part).movedim(1, -1).float()


def layer_heads(model: Model, layer: int) -> Heads:
    """Read a layer's weights by head, on the model's device; views of the parameters where those are float32 and there."""
    attention = model.architecture.attention

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
    """Compute what q, k and v read, float32: the state that enters the block [..., d_model], after the norm where one precedes attention."""
    path = model.architecture.attention.norm
    x = resid_pre.to(model.device).float()
    return x if path is None else in_float32(model.layer_module(layer, path), model.device)(x)


def project_by_head(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply x [batch, seq, d_model] by each head's rows, and add the bias if there is one: [heads, batch, seq, d_head]."""
    rows = torch.einsum("bsm,hdm->hbsd", x, weight)
    return rows if bias is None else rows + bias[:, None, None]


def apply_qk_norm(x: Tensor, norm: Callable[[Tensor], Tensor], is_joint: bool) -> Tensor:
    """Apply its norm to q or k [heads, batch, seq, d_head], over each head or over all of them jointly."""
    if not is_joint:
        return norm(x)
    joint: Tensor = norm(x.movedim(0, -2).flatten(-2))
    return joint.unflatten(-1, (x.shape[0], -1)).movedim(-2, 0)


def unrotated_queries_and_keys(model: Model, layer: int, x: Tensor, destinations: Tensor) -> tuple[Tensor, Tensor]:
    """Compute q of every head at these indices, and k everywhere, after bias and norm and before rotation.

    x: the attention input, [batch, seq, d_model]; destinations: [n]. Returns [n_heads, batch, n, d_head] and [n_kv_heads, batch, seq, d_head].
    """
    heads = layer_heads(model, layer)
    return behind_norms(model, layer, project_by_head(x[:, destinations], heads.w_q, heads.b_q), project_by_head(x, heads.w_k, heads.b_k))


def behind_norms(model: Model, layer: int, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Apply to projections by head, [heads, batch, n, d_head], the norms that some models have there."""
    attention = model.architecture.attention
    q_norm, k_norm = attention.q_norm(model.hf.config), attention.k_norm(model.hf.config)
    if q_norm is not None:
        q = apply_qk_norm(q, in_float32(model.layer_module(layer, q_norm), model.device), attention.is_qk_norm_joint)
    if k_norm is not None:
        k = apply_qk_norm(k, in_float32(model.layer_module(layer, k_norm), model.device), attention.is_qk_norm_joint)
    return q, k


def queries_and_keys(model: Model, layer: int, x: Tensor, destinations: Tensor) -> tuple[Tensor, Tensor]:
    """Compute `unrotated_queries_and_keys` after rotation, k once for each head that uses it: [n_heads, batch, n, d_head] and [n_heads, batch, seq, d_head]."""
    return rotate_queries_and_keys(model, layer, *unrotated_queries_and_keys(model, layer, x, destinations), destinations)


def rotate_queries_and_keys(model: Model, layer: int, q: Tensor, k: Tensor, destinations: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate what `unrotated_queries_and_keys` gives, and repeat k for each head that uses it."""
    rotary = model.architecture.attention.rotary
    if rotary is not None:
        cosine, sine = rotation(model, rotary, layer, torch.arange(k.shape[2], device=model.device))
        q = rotate_pairs(q, cosine[destinations], sine[destinations], rotary.is_adjacent)
        k = rotate_pairs(k, cosine, sine, rotary.is_adjacent)
    return q, for_each_head(model, k)


def score_scale(model: Model, layer: int) -> float:
    """Find what q·k is multiplied by."""
    scale = model.architecture.attention.scale(model.hf.config, layer)
    return model.d_head**-0.5 if scale is None else float(scale)


def visible_mask(destinations: Tensor, n_sources: int, window: int | None) -> Tensor:
    """Mark which of the first sources j the destinations i [n] see, [n, n_sources] of booleans: those with 0 ≤ i - j < window."""
    distance = destinations[:, None] - torch.arange(n_sources, device=destinations.device)
    return distance >= 0 if window is None else (distance >= 0) & (distance < window)


def scores(model: Model, layer: int, x: Tensor, destinations: Tensor) -> Tensor:
    """Compute the attention scores before the softmax of these destinations, [n_heads, batch, n, seq]; HIDDEN where a position may not look.

    x: the attention input, [batch, seq, d_model]; destinations: [n] indices.
    """
    return attention_scores(model, layer, *queries_and_keys(model, layer, x, destinations), destinations, slice(None))


def attention_scores(model: Model, layer: int, q: Tensor, k: Tensor, destinations: Tensor, heads: slice) -> Tensor:
    """Compute `scores` of some heads, from their queries [heads, batch, n, d_head] and the keys [heads, batch, seq, d_head] of the first positions.

    ALiBi is counted from the destination: its own position loses nothing.
    """
    attention, config = model.architecture.attention, model.hf.config
    softcap = attention.softcap(config)
    found = q * score_scale(model, layer) @ k.mT
    if softcap is not None:
        found = softcap * torch.tanh(found / softcap)
    if attention.is_alibi:
        slopes = torch.tensor(alibi_slopes(model.n_heads)[heads]).to(found.device)
        found -= slopes[:, None, None, None] * (destinations[:, None] - torch.arange(k.shape[2], device=found.device))
    return found.masked_fill_(~visible_mask(destinations, k.shape[2], attention.window(config, layer)), HIDDEN)


def pattern(model: Model, layer: int, resid_pre: Tensor) -> Tensor:
    """Compute where each head looks: attention weights [batch, n_heads, seq, seq], destination before source, each row summing to 1.

    resid_pre: the states that enter the block, [batch, seq, d_model], from the sequence's first position on, without padding before it.
    """
    x = attention_input(model, layer, resid_pre)
    return scores(model, layer, x, torch.arange(x.shape[1], device=x.device)).softmax(-1).transpose(0, 1)


def pattern_rows(model: Model, layer: int, resid_pre: Tensor, destinations: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the pattern's rows of some destinations of one sequence, and the values that they weigh.

    resid_pre: [seq, d_model], as for `pattern`; destinations: [n] indices. Returns weights [n, n_heads, seq] and W_V·x + b_V, once for each head that
    uses it, [n_heads, seq, d_head].
    """
    x, heads = attention_input(model, layer, resid_pre)[None], layer_heads(model, layer)
    return scores(model, layer, x, destinations).softmax(-1)[:, 0].transpose(0, 1), for_each_head(model, project_by_head(x, heads.w_v, heads.b_v))[:, 0]


def head_outputs(model: Model, layer: int, resid_pre: Tensor, weights: Tensor) -> Tensor:
    """Compute what each head writes, [batch, seq, n_heads, d_model]; with `b_o` they sum to the attention's output.

    weights: the layer's pattern. A head's part of the values' bias is in its output, since a pattern's rows sum to 1.
    """
    heads = layer_heads(model, layer)
    v = for_each_head(model, project_by_head(attention_input(model, layer, resid_pre), heads.w_v, heads.b_v))
    return torch.einsum("bhst,hbtd,hmd->bshm", weights, v, heads.w_o)
