"""One scan of a batch's coefficients with torch's operations, on any device: moments, and cells that may be new triggers."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from schema.terms import HISTOGRAM_BINS, histogram_edges

COUNTED = 2**26
"""Most coefficients that are counted at once. While they are counted, each takes some 30 bytes."""


class Moments(NamedTuple):
    """Moments of the coefficients of one layer, [d_ffn] each; histogram: [d_ffn, HISTOGRAM_BINS]."""

    n_active: Tensor
    total: Tensor
    square: Tensor
    low: Tensor
    high: Tensor
    histogram: Tensor

    def and_also(self, other: "Moments") -> "Moments":
        """Combine these moments with others."""
        low, high = torch.minimum(self.low, other.low), torch.maximum(self.high, other.high)
        return Moments(
            self.n_active + other.n_active, self.total + other.total, self.square + other.square, low, high, self.histogram + other.histogram
        )  # fmt: skip


class Triggers(NamedTuple):
    """The k best triggers of each key of one layer, best first. Each field is [2 * d_ffn, k], but levels is [2 * d_ffn, k, PRECEDING].

    The keys of the max tail come first, then those of the min tail, with coefficients negated. contexts: [2 * d_ffn, k, 1], or [2 * d_ffn, k, 0] if they do
    not matter.
    """

    best: Tensor
    positions: Tensor
    levels: Tensor
    scales: Tensor
    contexts: Tensor


class Batch(NamedTuple):
    """Rows of a batch at one layer.

    x: coefficients, [rows, d_ffn]. positions: position_id of each row, -1 if the row does not count, [rows]. indices: place of each row in its sequence,
    [rows]. counted: numbers of the rows that count, [n]. contexts: [rows, 1], or [rows, 0] if they do not matter.
    """

    x: Tensor
    positions: Tensor
    indices: Tensor
    counted: Tensor
    contexts: Tensor


Cells = tuple[Tensor, Tensor]
"""Cells of a batch's coefficients: the row and the key of each cell, [n] each."""


def torch_scan(batch: Batch, moments: Moments, triggers: Triggers | None) -> tuple[Moments, Callable[[], Cells]]:
    """Add a batch to the moments; return them, and a function that finds the cells better than the k-th best trigger of their key.

    The function waits for the device. It finds no cells if there are no triggers to compare with.
    """
    for rows in batch.counted.split(rows_at_once(batch.x)):
        if len(rows):
            moments = moments.and_also(compute_moments(batch.x[rows].float()))
    return moments, lambda: better_cells(batch, triggers, 0, len(batch.x)) if triggers else no_cells(batch)


def rows_at_once(x: Tensor) -> int:
    return max(1, COUNTED // x.shape[1])


def compute_moments(x: Tensor) -> Moments:
    """Compute the moments of the coefficients x, [rows, d_ffn]."""
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
    """Count the histogram of each column: [rows, d_ffn] → [d_ffn, HISTOGRAM_BINS]; the bins of schema.terms.histogram_edges."""
    bins = torch.where(x < 0, torch.searchsorted(edges(x.device), x, right=False), torch.searchsorted(edges(x.device), x, right=True))
    flat = bins + torch.arange(x.shape[1], device=x.device) * HISTOGRAM_BINS
    return torch.bincount(flat.flatten(), minlength=x.shape[1] * HISTOGRAM_BINS).view(x.shape[1], HISTOGRAM_BINS)


def no_cells(batch: Batch) -> Cells:
    none = torch.empty(0, dtype=torch.int64, device=batch.x.device)
    return none, none


def better_cells(batch: Batch, triggers: Triggers, first_row: int, end_row: int) -> Cells:
    """Find row and key of every cell in some rows that is better than its key's k-th best: larger, or equal at a smaller position."""
    d_ffn, found = batch.x.shape[1], [no_cells(batch)]
    for first in range(first_row, end_row, rows_at_once(batch.x)):
        rows = slice(first, min(end_row, first + rows_at_once(batch.x)))
        x, positions = batch.x[rows].float(), batch.positions[rows, None]
        for first_key, signed in ((0, x), (d_ffn, -x)):
            worst, last = (kept[first_key : first_key + d_ffn, -1] for kept in (triggers.best, triggers.positions))
            is_better = ((signed > worst) | ((signed == worst) & (positions < last))) & (positions >= 0)
            row, neuron = torch.nonzero(is_better, as_tuple=True)
            found.append((row + first, neuron + first_key))
    row, key = (torch.cat(both) for both in zip(*found, strict=True))
    return row, key
