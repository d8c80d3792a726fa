"""Where heads look, summed over the destinations of a text: every token but the first of its sequence (Elhage et al. 2021; Olsson et al. 2022).

Sums over destinations, beside those of attention that is the same on all that a destination sees, the window of its layer included:
weight at each distance, weight on index 0, on earlier copies of the destination's token, on the tokens after such copies, and entropy in nats.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

AT_ONCE = 2**22
"""Weights of one sequence, of several heads, that are summed at once: what is made on the way takes a few times as many numbers."""

TINY = 1e-30
"""Stands for what all sources move where they move nothing."""

N_OTHER = 4
"""Columns of sums before those of the distances 0, 1, …: first, duplicate, induction, entropy."""


class Places(NamedTuple):
    """One sequence. n: its tokens. destinations, sources: every pair of equal tokens, the later one first, [n_pairs] int64; the token after
    a source, at most the destination itself, is what induction looks at."""

    n: int
    destinations: np.ndarray
    sources: np.ndarray

    @property
    def n_destinations(self) -> int:
        return self.n - 1

    @property
    def n_repeated(self) -> int:
        """Destinations whose token came before."""
        return len(np.unique(self.destinations))


def places(token_ids: np.ndarray) -> Places:
    """token_ids: of a sequence, [n]."""
    return Places(len(token_ids), *np.nonzero(np.tril(token_ids[:, None] == token_ids, -1)))


def looked(weights: Tensor, there: Places) -> Tensor:
    """Sums of each head over the destinations of a sequence, [n_heads, N_OTHER + seq] float64.

    weights: [n_heads, seq, seq], destination before source, exactly 0 for sources behind the destination; what follows the sequence is padding.
    """
    seq = weights.shape[-1]
    step = max(1, AT_ONCE // seq**2)
    copies = torch.from_numpy(there.destinations * seq + there.sources).to(weights.device)
    parts = []
    for some in weights[:, : there.n].split(step):
        flat = some.float().flatten(1)
        first, own = flat[:, seq::seq], flat[:, seq:]
        sums = (first, flat.index_select(1, copies), flat.index_select(1, copies + 1), torch.special.entr(own))
        parts.append(torch.cat([*(x.sum(1, keepdim=True, dtype=torch.float64) for x in sums), by_distance(flat, seq)], 1))
    found = torch.cat(parts)
    # index 0 looks at itself, and is no destination
    found[:, N_OTHER] -= weights[:, 0, 0]
    return found


def first_moved(weights: Tensor, lengths: Tensor, there: Places, window: int | None) -> tuple[Tensor, Tensor]:
    """Share of index 0 in what all sources move, summed over the destinations of a sequence, and the same for equal weights: [n_heads] float64 each.

    weights: as for `looked`; lengths: ‖W_O·v‖ of the sources, [n_heads, seq]; window: how many positions the layer sees, None for all. Where nothing moves
    anything the share is 0.
    """
    step, lengths = max(1, AT_ONCE // weights.shape[-1] ** 2), lengths.to(weights.device)
    parts = zip(weights[:, 1 : there.n].split(step), lengths.split(step), strict=True)
    total = torch.cat([(some.float() @ of[..., None])[..., 0] for some, of in parts]).double()
    moved = weights[:, 1 : there.n, 0].double() * lengths[:, :1]
    # a destination behind the window does not see index 0; the others see all before them
    seen = lengths[:, : there.n].cumsum(-1, dtype=torch.float64)[:, 1:window]
    return (moved / total.clamp_min(TINY)).sum(-1), (lengths[:, :1] / seen.clamp_min(TINY)).sum(-1)


def by_distance(flat: Tensor, seq: int) -> Tensor:
    """Sums of the diagonals, [n_heads, seq] float64, of weights [n_heads, rows·seq] that are 0 above the diagonal.

    Read in rows of seq + 1, a diagonal is a column: that of distance 0 the first, that of distance Δ the Δ-th from the end. No copy is made.
    """
    width, n_rows = seq + 1, flat.shape[1] // (seq + 1)
    sums = flat[:, : n_rows * width].unflatten(1, (n_rows, width)).sum(1, dtype=torch.float64)
    rest = flat[:, n_rows * width :]
    sums[:, : rest.shape[1]] += rest
    return torch.cat([sums[:, :1], sums[:, 2:].flip(1)], 1)


def evenly(there: Places, window: int | None, seq: int) -> np.ndarray:
    """The sums of `looked`, [N_OTHER + seq], for attention that is the same on all the positions that a destination sees."""
    index = np.arange(1, there.n)
    n_seen = np.minimum(index + 1, there.n if window is None else window)
    share = np.zeros(there.n)
    share[1:] = 1 / n_seen

    def at(distance: np.ndarray) -> float:
        is_seen = distance < (there.n if window is None else window)
        return float(share[there.destinations[is_seen]].sum())

    apart = there.destinations - there.sources
    distances = np.zeros(seq)
    # a distance is seen by the destinations that see more than it
    np.add.at(distances, n_seen - 1, 1 / n_seen)
    distances = distances[::-1].cumsum()[::-1]
    return np.concatenate([[(1 / n_seen)[n_seen > index].sum(), at(apart), at(apart - 1), np.log(n_seen).sum()], distances])


def bin_of(distance: np.ndarray) -> np.ndarray:
    """Bins 0, 1, 2, 3-4, 5-8, …: bin b ends with the distance 2^(b - 1)."""
    return np.where(distance == 0, 0, 1 + np.ceil(np.log2(np.maximum(distance, 1)))).astype(np.int16)


def n_bins(context: int) -> int:
    """Of the distances in sequences of so many tokens."""
    return 1 if context < 2 else 2 + math.ceil(math.log2(context - 1))


def in_bins(distances: np.ndarray, n: int) -> np.ndarray:
    """Sums at each distance, [..., seq], to sums in each bin, [..., n]."""
    bins = bin_of(np.arange(distances.shape[-1]))
    return np.stack([distances[..., bins == b].sum(-1) for b in range(n)], -1)
