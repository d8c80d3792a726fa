"""Positions in attention: the angles by which RoPE turns q and k, and the slopes of ALiBi."""

import math

import torch
from torch import Tensor

from ingest.model.facts import Rotary
from ingest.model.models import Model
from ingest.model.modules import find, tensor_of
from schema.errors import AtlasError

MOST_POSITIONS = 2**24
"""Limit on positions: angles are computed in float32, which holds whole numbers exactly up to this."""

BLOCK = 2**16
"""Number of positions whose angles are in memory at a time."""


def rotation(model: Model, rotary: Rotary, layer: int, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Compute cosine and sine of each pair's angle at positions [n], each [n, pairs] float32, times the model's own scaling of RoPE.

    Both come from the model's module or table rather than from a formula, since checkpoints stretch their frequencies in many ways. Raises AtlasError if the
    dimensions that are rotated do not form pairs.
    """
    if rotary.is_table:
        path, _, name = rotary.angles.rpartition(".")
        angles = tensor_of(model.layer_module(layer, path), name)
        sine, cosine = angles[positions.to(angles.device)].chunk(2, dim=-1)
        return cosine.to(model.device).float(), sine.to(model.device).float()
    layer_type = rotary.layer_type(model.hf.config, layer)
    # the module takes dtype and device of its first argument
    cosine, sine = find(model.backbone_module, rotary.angles)(torch.zeros(1, device=model.device), positions[None], *([layer_type] if layer_type else []))
    if rotary.spread != "halves":
        step = 2 if rotary.spread == "neighbours" else 1
        return cosine[0, :, ::step].to(model.device).float(), sine[0, :, ::step].to(model.device).float()
    n_pairs, left = divmod(min(cosine.shape[-1], model.d_head), 2)
    if left or not n_pairs:
        raise AtlasError(
            f"model {model.name}: RoPE rotates dimensions in pairs, and here it would rotate {cosine.shape[-1]} of a head's {model.d_head}, which are not pairs"
        )
    return cosine[0, :, :n_pairs].to(model.device).float(), sine[0, :, :n_pairs].to(model.device).float()


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


def mean_rotation(model: Model, rotary: Rotary, layer: int, shares: Tensor) -> tuple[Tensor, Tensor]:
    """Average cosine and sine of each pair's angle over distances, [heads, 1, pairs] float32 each.

    shares: the weight of each distance from 0 on, [heads, n] float64, each row summing to 1. The rotation R(Δ) is linear in cosine and sine. With their
    averages `rotate_pairs` thus returns the mean of its results over the distances, scaling of RoPE included.
    """
    n = shares.shape[1]
    last = torch.tensor([n - 1], device=model.device)
    cosines = sines = torch.zeros((), dtype=torch.float64, device=model.device)
    for start in range(0, n, BLOCK):
        # some modules choose their frequencies by the last position
        block = torch.cat((torch.arange(start, min(start + BLOCK, n), device=model.device), last))
        cosine, sine = rotation(model, rotary, layer, block)
        part = shares[:, start : start + BLOCK]
        cosines, sines = cosines + part @ cosine[:-1].double(), sines + part @ sine[:-1].double()
    # q and k are both scaled; at distance 0 the cosine is the scale alone
    scale = rotation(model, rotary, layer, torch.cat((torch.zeros_like(last), last)))[0][0]
    return (cosines * scale).float()[:, None], (sines * scale).float()[:, None]
