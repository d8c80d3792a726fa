"""Sums of attention over the destinations of a text: every token but the first of its sequence (Elhage et al. 2021; Olsson et al. 2022).

There are sums of the weight at each distance, on index 0, on earlier copies of the destination's token and on the tokens after such copies, of the entropy in
nats, and of the share of index 0 in what all sources move. Each sum is compared with that of uniform attention: equal weights on all positions that a
destination sees within its layer's window.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

TINY = 1e-30
"""Lower limit of the total that all sources move, by which shares are divided: the total is 0 if no source moves anything."""

N_OTHER = 5
"""Number of columns of sums before those of the distances 0, 1, …: first, duplicate, induction, entropy, first_moved."""


class Places(NamedTuple):
    """Pairs of equal tokens in one sequence.

    n: number of tokens of the sequence. destinations, sources: indices of the later and the earlier token of each pair, [n_pairs] int64.
    Induction looks at the token after a source, which may be the destination itself.
    """

    n: int
    destinations: np.ndarray
    sources: np.ndarray

    @property
    def n_destinations(self) -> int:
        return self.n - 1

    @property
    def n_repeated(self) -> int:
        """Number of destinations whose token came before."""
        return len(np.unique(self.destinations))


def places(token_ids: np.ndarray) -> Places:
    """Find every pair of equal tokens in a sequence. token_ids: [n]."""
    return Places(len(token_ids), *np.nonzero(np.tril(token_ids[:, None] == token_ids, -1)))


def sum_attention(scores: Tensor, lengths: Tensor, first: int, there: Places) -> Tensor:
    """Sum the attention of each head over some destinations of a sequence: [heads, N_OTHER + seq] float64.

    scores: attention scores of the destinations from `first` on, over all sources up to the last destination, [heads, n, seq]; a large negative number where
    a destination may not look. lengths: ‖W_O·v‖ of these sources, [heads, seq]. If no source moves anything, the share of index 0 is 0.
    """
    seq = scores.shape[-1]
    logs = scores.log_softmax(-1)
    weights = logs.exp()
    start, end = np.searchsorted(there.destinations, (first, seq))
    copies = torch.from_numpy((there.destinations[start:end] - first) * seq + there.sources[start:end]).to(scores.device)
    flat, moved = weights.flatten(1), weights * lengths[:, None]
    shares = moved[..., 0] / moved.sum(-1).clamp_min(TINY)
    sums = (weights[..., 0], flat.index_select(1, copies), flat.index_select(1, copies + 1), -(weights * logs).sum(-1), shares)
    return torch.cat([*(x.sum(1, keepdim=True, dtype=torch.float64) for x in sums), by_distance(flat, seq, first)], 1)


def first_moved_evenly(lengths: Tensor, window: int | None) -> Tensor:
    """Sum, over the destinations of a sequence, the share of index 0 in what all sources move under uniform attention: [heads] float64.

    lengths: ‖W_O·v‖ of each source of the sequence, [heads, n]. window: as in `uniform_sums`.
    """
    # a destination behind the window does not see index 0; the others see all before them
    seen = lengths.cumsum(-1, dtype=torch.float64)[:, 1:window]
    return (lengths[:, :1] / seen.clamp_min(TINY)).sum(-1)


def by_distance(flat: Tensor, seq: int, first: int) -> Tensor:
    """Sum the weights at each distance for the destinations from `first` to seq - 1: [heads, n·seq], 0 above the diagonal, to [heads, seq] float64.

    Viewed in rows of seq + 1 numbers, each diagonal of the weights is a column, so nothing need be copied. The first columns have the distances `first`, …, 0,
    and the last columns seq - 1, …, first + 1.
    """
    width, n_rows = seq + 1, flat.shape[1] // (seq + 1)
    sums = flat[:, : n_rows * width].unflatten(1, (n_rows, width)).sum(1, dtype=torch.float64)
    rest = flat[:, n_rows * width :]
    sums[:, : rest.shape[1]] += rest
    return torch.cat([sums[:, : first + 1].flip(1), sums[:, first + 2 :].flip(1)], 1)


def uniform_sums(there: Places, window: int | None, seq: int) -> np.ndarray:
    """Compute the sums of `sum_attention` over a whole sequence, [N_OTHER + seq], for uniform attention on all positions that a destination sees.

    window: the number of positions that a destination sees, None for all. The column first_moved is left at 0, since heads differ in it.
    """
    index = np.arange(1, there.n)
    n_seen = np.minimum(index + 1, there.n if window is None else window)
    share = np.zeros(there.n)
    share[1:] = 1 / n_seen

    def share_at(distance: np.ndarray) -> float:
        is_seen = distance < (there.n if window is None else window)
        return float(share[there.destinations[is_seen]].sum())

    apart = there.destinations - there.sources
    distances = np.zeros(seq)
    # a distance is seen by the destinations that see more than it
    np.add.at(distances, n_seen - 1, 1 / n_seen)
    distances = distances[::-1].cumsum()[::-1]
    return np.concatenate([[(1 / n_seen)[n_seen > index].sum(), share_at(apart), share_at(apart - 1), np.log(n_seen).sum(), 0.0], distances])


def bin_of(distance: np.ndarray) -> np.ndarray:
    """Find the bin of each distance. The bins are 0, 1, 2, 3-4, 5-8, …: bin b, from 1 on, ends with the distance 2^(b - 1)."""
    return np.where(distance == 0, 0, 1 + np.ceil(np.log2(np.maximum(distance, 1)))).astype(np.int16)


def n_bins(context: int) -> int:
    """Count the bins of the distances in sequences of `context` tokens."""
    return 1 if context < 2 else 2 + math.ceil(math.log2(context - 1))


def in_bins(distances: np.ndarray, n: int) -> np.ndarray:
    """Add up sums by distance, [..., seq], into sums by bin, [..., n]."""
    bins = bin_of(np.arange(distances.shape[-1]))
    return np.stack([distances[..., bins == b].sum(-1) for b in range(n)], -1)
