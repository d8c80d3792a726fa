"""Length ‖W_O·v‖ of a head's output for each source. Times the weight, it is how much the source moves (Elhage et al. 2021, value-weighted attention)."""

import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.parts import writers


def products(model: Model, layer: int) -> Tensor:
    """Compute W_Oᵀ·W_O of each head, [n_heads, d_head, d_head]. W_O includes the factors on the head's output, except the scale of a norm."""
    w_o = writers(model, layer)
    return torch.einsum("hmd,hme->hde", w_o, w_o)


def lengths(values: Tensor, products: Tensor) -> Tensor:
    """Compute ‖W_O·v‖ of values [n_heads, …, d_head]: [n_heads, …]."""
    return (torch.einsum("h...d,hde->h...e", values, products) * values).sum(-1).clamp_min(0).sqrt()
