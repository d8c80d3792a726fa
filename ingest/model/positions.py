"""The angles by which a model's RoPE turns q and k, at positions and on average over distances."""

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
