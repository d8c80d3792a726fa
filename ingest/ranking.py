"""Ranks and top-k over a vocabulary with one rule for ties: the lowest id first. Pure functions on tensors."""

import numpy as np
import torch
from torch import Tensor


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, best first, ties by lowest index: [n, size] → values and indices [n, min(k, size)].

    torch.topk leaves the order of ties open, so ties inside the k are put right, and rows whose k-th place is tied
    (duplicate embeddings do that) are sorted whole.
    """
    k = min(k, scores.shape[-1])
    values, indices = torch.topk(scores, min(k + 1, scores.shape[-1]), dim=-1)
    tied = torch.nonzero((values[:, k - 1] == values[:, k]) if values.shape[-1] > k else torch.zeros(len(values), dtype=torch.bool)).flatten()
    indices, by_index = torch.sort(indices[:, :k], dim=-1)
    values, by_value = torch.sort(values[:, :k].gather(1, by_index), dim=-1, descending=True, stable=True)
    indices = indices.gather(1, by_value)
    if len(tied):
        whole, order = torch.sort(scores[tied], dim=-1, descending=True, stable=True)
        values[tied], indices[tied] = whole[:, :k], order[:, :k]
    return values, indices


def rank_of(scores: Tensor, index: Tensor) -> Tensor:
    """Rank, from 1, of one entry in each row: [n, size], [n] → [n]; equal scores at lower indices rank before it."""
    own = scores.gather(1, index[:, None])
    rank = 1 + count_true(scores > own)
    tied = torch.nonzero(count_true(scores == own) > 1).flatten()
    if len(tied):
        before = torch.arange(scores.shape[1], device=scores.device) < index[tied, None]
        rank[tied] += ((scores[tied] == own[tied]) & before).sum(1)
    return rank


def count_true(mask: Tensor) -> Tensor:
    """How many are true in each row: [n, size] → [n] int64. On the CPU numpy's count of a contiguous row is ten times faster than a sum."""
    if mask.device.type != "cpu":
        return mask.sum(1)
    return torch.tensor([np.count_nonzero(row) for row in mask.numpy()], dtype=torch.int64)
