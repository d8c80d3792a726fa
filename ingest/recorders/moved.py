"""How long what a head writes of each source is, ‖W_O·v‖: times the weight what the source moves (Elhage et al. 2021, value-weighted attention)."""

import torch
from torch import Tensor

from ingest.model.heads import attention_input, for_each_head, layer_heads, projected
from ingest.model.models import Model
from ingest.model.parts import writers


def products(model: Model, layer: int) -> Tensor:
    """W_Oᵀ·W_O of each head, with what multiplies its output but the scale of a norm: [n_heads, d_head, d_head]."""
    w_o = writers(model, layer)
    return torch.einsum("hmd,hme->hde", w_o, w_o)


def lengths(values: Tensor, products: Tensor) -> Tensor:
    """‖W_O·v‖ of values [n_heads, …, d_head]: [n_heads, …]."""
    return (torch.einsum("h...d,hde->h...e", values, products) * values).sum(-1).clamp_min(0).sqrt()


def source_lengths(model: Model, layer: int, resid_pre: Tensor) -> Tensor:
    """‖W_O·v‖ of every position, [batch, n_heads, seq] float32. resid_pre: the states that enter the block, [batch, seq, d_model]."""
    heads = layer_heads(model, layer)
    values = for_each_head(model, projected(attention_input(model, layer, resid_pre), heads.w_v, heads.b_v))
    return lengths(values, products(model, layer)).transpose(0, 1)
