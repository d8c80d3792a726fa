"""Sources that the heads of a layer look at from sampled positions, and their parts in the heads' output (Elhage et al. 2021, value-weighted attention).

Sources are selected by what they move, a·‖W_O·v‖, where a is the attention weight: a weight alone says nothing about the value behind it, and index 0 has
large weights and small values.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from ingest.model.heads import pattern_rows
from ingest.model.models import Model
from ingest.model.ranking import top_k
from ingest.recorders.value_norms import lengths, products

N_SOURCES = 8
"""Sources stored for each head and destination."""


@dataclass(frozen=True)
class Sources:
    """Attention of one layer's heads at n positions, float32.

    Fields about the stored sources are [n, n_heads, N_SOURCES], in descending order of `moved`; places left over have index -1 and zeros.
    index: int64. weight: attention weight. value_norm: ‖v‖. moved: weight·‖W_O·v‖, with the norm or multiplier that follows. weighted: weight·v, with a
    further dimension d_head.
    Fields about all sources together are [n, n_heads]. entropy: in nats. first, itself, previous: weight at index 0, at the position itself and at the
    position before it (0 at index 0). moved_total: the sum of `moved`. gathered: the sum of weight·v, with a further dimension d_head.
    """

    index: Tensor
    weight: Tensor
    value_norm: Tensor
    moved: Tensor
    weighted: Tensor
    entropy: Tensor
    first: Tensor
    itself: Tensor
    previous: Tensor
    moved_total: Tensor
    gathered: Tensor


def sources(model: Model, layer: int, context: Tensor, indices: list[np.ndarray], attn_scale: Tensor) -> Sources:
    """Find the sources of all destinations in some sequences.

    context: resid_pre of the sequences, [sequences, seq, d_model]. indices: the destinations in each sequence, ascending. attn_scale: one number for each
    destination, [n].
    """
    of_heads = products(model, layer)

    def each_sequence() -> Iterator[Sources]:
        scales = attn_scale.split([len(found) for found in indices])
        for resid_pre, found, scale in zip(context, indices, scales, strict=True):
            destinations = torch.from_numpy(found).to(context.device)
            # what follows the last destination is seen from none
            weights, values = pattern_rows(model, layer, resid_pre[: int(found[-1]) + 1], destinations)
            yield select_sources(weights, values, lengths(values, of_heads), destinations, scale)

    found = list(each_sequence())
    return Sources(*(torch.cat([getattr(each, f.name) for each in found]) for f in fields(Sources)))


def select_sources(weights: Tensor, values: Tensor, written: Tensor, destinations: Tensor, scale: Tensor) -> Sources:
    """Select the sources of one sequence. weights: [n, n_heads, seq]; values: [n_heads, seq, d_head]; written: ‖W_O·v‖, [n_heads, seq]."""
    n, n_heads, _ = weights.shape
    moved = weights * written * scale[:, None, None]
    # a source that is not seen is none, even where what is seen moves nothing
    best, order = top_k(moved.masked_fill(weights == 0, -1).flatten(0, 1), N_SOURCES)
    is_seen = (best >= 0).view(n, n_heads, -1)
    order = order.view(n, n_heads, -1)
    chosen = torch.arange(n_heads, device=order.device)[:, None], order
    weight = weights.gather(2, order)
    at = destinations.view(n, 1, 1).expand(n, n_heads, 1)
    before = weights.gather(2, (at - 1).clamp_min(0))[..., 0] * (destinations > 0)[:, None]

    def pad_sources(x: Tensor, absent: float = 0) -> Tensor:
        missing = N_SOURCES - x.shape[2]
        return torch.cat([x, x.new_full((n, n_heads, missing, *x.shape[3:]), absent)], 2) if missing else x

    return Sources(
        pad_sources(order.masked_fill(~is_seen, -1), -1),
        pad_sources(weight),
        pad_sources(values.norm(dim=-1)[chosen] * is_seen),
        pad_sources(best.view(n, n_heads, -1).clamp_min(0)),
        pad_sources(values[chosen] * weight[..., None]),
        torch.special.entr(weights).sum(-1),
        weights[..., 0],
        weights.gather(2, at)[..., 0],
        before,
        moved.sum(-1),
        torch.einsum("nht,htd->nhd", weights, values),
    )
