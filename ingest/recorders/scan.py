"""What one reading of a batch's coefficients gives, and that reading by torch's operations, on any device."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from schema.terms import HISTOGRAM_BINS, histogram_edges

COUNTED = 2**26
"""Coefficients counted at once: some 30 bytes each are needed for a moment."""


class Moments(NamedTuple):
    """Of one layer, [d_ffn] each; histogram [d_ffn, HISTOGRAM_BINS]."""

    n_active: Tensor
    total: Tensor
    square: Tensor
    low: Tensor
    high: Tensor
    histogram: Tensor

    def and_also(self, other: "Moments") -> "Moments":
        """Those of both."""
        low, high = torch.minimum(self.low, other.low), torch.maximum(self.high, other.high)
        return Moments(
            self.n_active + other.n_active, self.total + other.total, self.square + other.square, low, high, self.histogram + other.histogram
        )  # fmt: skip


class Triggers(NamedTuple):
    """The k best of one layer, best first; the min tail follows the max tail, with its sign turned. [2 * d_ffn, k] each, levels [2 * d_ffn, k, PRECEDING]."""

    best: Tensor
    positions: Tensor
    levels: Tensor
    scales: Tensor


class Part(NamedTuple):
    """Some rows of a batch. x: coefficients of the whole batch, [rows, d_ffn]; positions (-1 where padded), indices in the sequence: [rows]."""

    x: Tensor
    positions: Tensor
    indices: Tensor
    is_padded: bool
    first: int
    end: int


Found = Callable[[], tuple[Tensor, Tensor]]
"""Gives row and key, [n] each, of the cells that are better than the k-th best known, once it is known how many they are."""

Scan = Callable[[Part, Moments, Triggers], tuple[Moments, Found]]
"""Adds a part to the moments, and finds the cells of it that may be triggers."""


def torch_scan(part: Part, moments: Moments, triggers: Triggers) -> tuple[Moments, Found]:
    x = part.x[part.first : part.end]
    if part.is_padded:
        x = x[part.positions[part.first : part.end] >= 0]
    for some in x.split(max(1, COUNTED // x.shape[1])):
        moments = moments.and_also(counted(some.float()))
    return moments, lambda: better_cells(part, triggers)


def counted(x: Tensor) -> Moments:
    """Of the coefficients x, [rows, d_ffn]."""
    wide = x.double()
    return Moments(
        n_active=(x > 0).sum(0),
        total=wide.sum(0),
        square=wide.square_().sum(0),
        low=x.amin(0),
        high=x.amax(0),
        histogram=count_bins(x),
    )


@cache
def edges(device: torch.device) -> Tensor:
    return torch.tensor(histogram_edges()[:-1]).to(device)


def count_bins(x: Tensor) -> Tensor:
    """Histogram of each column: [rows, d_ffn] → [d_ffn, HISTOGRAM_BINS]; the bins of schema.terms.histogram_edges."""
    bins = torch.where(x < 0, torch.searchsorted(edges(x.device), x, right=False), torch.searchsorted(edges(x.device), x, right=True))
    flat = bins + torch.arange(x.shape[1], device=x.device) * HISTOGRAM_BINS
    return torch.bincount(flat.flatten(), minlength=x.shape[1] * HISTOGRAM_BINS).view(x.shape[1], HISTOGRAM_BINS)


def better_cells(part: Part, triggers: Triggers) -> tuple[Tensor, Tensor]:
    """Row and key of every cell of a part that is better than its key's k-th best: larger, or as large at a smaller position."""
    rows, d_ffn = slice(part.first, part.end), part.x.shape[1]
    x, positions = part.x[rows].float(), part.positions[rows, None]
    found = []
    for first_key, signed in ((0, x), (d_ffn, -x)):
        worst, last = (kept[first_key : first_key + d_ffn, -1] for kept in (triggers.best, triggers.positions))
        is_better = ((signed > worst) | ((signed == worst) & (positions < last))) & (positions >= 0)
        row, neuron = torch.nonzero(is_better, as_tuple=True)
        found.append((row + part.first, neuron + first_key))
    row, key = (torch.cat(both) for both in zip(*found, strict=True))
    return row, key
