"""How positions enter attention scores, from numbers alone: pairs of dimensions turned by angles (RoPE), and the slopes of ALiBi."""

import math

import torch
from torch import Tensor


def rotate_pairs(x: Tensor, cosine: Tensor, sine: Tensor, is_adjacent: bool) -> Tensor:
    """Rotate the leading pairs of dimensions of x, [..., seq, d_head], by the angles whose cosines and sines, [seq, pairs], are given; leave the remaining
    dimensions unchanged.
    """
    width = 2 * cosine.shape[-1]
    pairs = x[..., :width].unflatten(-1, (-1, 2) if is_adjacent else (2, -1))
    first, second = pairs.unbind(-1 if is_adjacent else -2)
    both = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat((torch.stack(both, dim=-1 if is_adjacent else -2).flatten(-2), x[..., width:]), dim=-1)


def alibi_slopes(n_heads: int) -> list[float]:
    """Compute each head's slope: how much its scores lose per position of distance (Press et al. 2022, section 3).

    If the number of heads n is a power of two, the slopes are a geometric sequence from 2^(-8/n). Otherwise they are the slopes of the power below, then every
    other slope of the power above.
    """
    power = 2 ** math.floor(math.log2(n_heads))
    return [2 ** (-8 * i / power) for i in range(1, power + 1)] + [2 ** (-4 * i / power) for i in range(1, 2 * (n_heads - power), 2)]
