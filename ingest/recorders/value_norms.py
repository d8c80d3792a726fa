"""How long what a head writes of each source is, ‖W_O·v‖: times the weight what the source moves (Elhage et al. 2021, value-weighted attention)."""

import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.parts import writers


def products(model: Model, layer: int) -> Tensor:
    """Compute W_Oᵀ·W_O of each head, with what multiplies its output but the scale of a norm: [n_heads, d_head, d_head]."""
    w_o = writers(model, layer)
    return torch.einsum("hmd,hme->hde", w_o, w_o)


def lengths(values: Tensor, products: Tensor) -> Tensor:
    """Compute ‖W_O·v‖ of values [n_heads, …, d_head]: [n_heads, …]."""
    return (torch.einsum("h...d,hde->h...e", values, products) * values).sum(-1).clamp_min(0).sqrt()
