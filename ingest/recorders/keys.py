"""What the sweep keeps of every key: exact top-k triggers of both tails, moments and a histogram of the coefficients.

Source: trigger examples of Geva et al. 2021, section 3, kept for both tails because the sign of a gated FFN's coefficient
is not identifiable. Two reductions with the same results: `CpuKeys` (one compiled pass) and `TorchKeys` (any device).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ingest.recorders.kernel import ABSENT, MAX_ROWS, NOWHERE, reduce_rows
from schema.errors import AtlasError
from schema.terms import HISTOGRAM_BINS, PRECEDING, histogram_edges


@dataclass(frozen=True)
class KeyStatistics:
    """Coefficients of each neuron over the positions seen, [n_layers, d_ffn] each; histogram [n_layers, d_ffn, HISTOGRAM_BINS]."""

    n_positions: int
    n_active: np.ndarray
    total: np.ndarray
    square: np.ndarray
    low: np.ndarray
    high: np.ndarray
    histogram: np.ndarray


@dataclass(frozen=True)
class KeyTriggers:
    """The k best positions of each key and tail so far, unordered: [n_layers, 2 (max, min), d_ffn, k].

    `positions` is NOWHERE where fewer than k positions were seen. Coefficients are as read (the min tail is not negated).
    levels: the coefficients at the PRECEDING tokens before each, in units of `scales`, ABSENT before the sequence's start; not kept of what was known before.
    """

    coefficients: np.ndarray
    positions: np.ndarray
    levels: np.ndarray
    scales: np.ndarray


def check_finite(layer: int, total: np.ndarray) -> None:
    """Raise AtlasError if a running sum of coefficients is NaN or infinite: nothing non-finite is ever stored."""
    if not np.isfinite(total).all():
        neurons = np.flatnonzero(~np.isfinite(total))
        raise AtlasError(
            f"layer {layer}: NaN or infinite coefficients in {len(neurons)} neurons (first: L{layer}N{neurons[0]}); nothing of this batch was stored"
        )


class CpuKeys:
    """Running reductions of all keys on the CPU."""

    def __init__(self, n_layers: int, d_ffn: int, k: int) -> None:
        self.shape = (n_layers, d_ffn)
        self.best = np.full((n_layers, 2, d_ffn, k), -np.inf, np.float32)
        self.best_positions = np.full((n_layers, 2, d_ffn, k), NOWHERE, np.int64)
        self.places = np.broadcast_to(np.arange(k, dtype=np.int32), self.best.shape).copy()
        self.levels = np.full((*self.best.shape, PRECEDING), ABSENT, np.int8)
        self.scales = np.zeros(self.best.shape, np.float32)
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Start the statistics of a new shard; triggers go on, so that a later shard carries only what beats them."""
        self.n_positions = 0
        self.total, self.square = np.zeros(self.shape), np.zeros(self.shape)
        self.low, self.high = np.full(self.shape, np.inf, np.float32), np.full(self.shape, -np.inf, np.float32)
        self.n_active = np.zeros(self.shape, np.int64)
        self.histogram = np.zeros((*self.shape, HISTOGRAM_BINS), np.int64)

    def seed(self, coefficients: np.ndarray, positions: np.ndarray) -> None:
        """Start from triggers already known, as in KeyTriggers. Any order: a heap is a sorted array, worst first."""
        signed = coefficients * np.array([1, -1], np.float32)[:, None, None]
        signed = np.where(positions == NOWHERE, np.float32(-np.inf), signed)
        order = np.lexsort((-positions, signed), axis=-1)
        self.best = np.ascontiguousarray(np.take_along_axis(signed, order, -1))
        self.best_positions = np.ascontiguousarray(np.take_along_axis(positions, order, -1))

    def add(self, layer: int, coefficients: Tensor, positions: np.ndarray, indices: np.ndarray) -> None:
        """coefficients: [rows, d_ffn] of one layer, the rows of a sequence one after the other.

        positions, indices: position_id of each row, -1 where padded, and its place in its sequence, [rows] int64.
        """
        real = positions >= 0
        x = coefficients.detach().float().contiguous().numpy()
        if not real.all():
            x, positions, indices = x[real], positions[real], indices[real]
        n_threads = torch.get_num_threads()
        for start in range(0, len(x), MAX_ROWS):
            reduce_rows(
                x, x.view(np.int32), positions, indices, start, min(start + MAX_ROWS, len(x)),
                self.total[layer], self.square[layer], self.low[layer], self.high[layer], self.n_active[layer], self.histogram[layer],
                self.best[layer], self.best_positions[layer], self.places[layer], self.levels[layer], self.scales[layer], n_threads,
            )  # fmt: skip
        # numba's first parallel loop sets the number of OpenMP's threads, which torch shares, to that of all cores
        torch.set_num_threads(n_threads)
        check_finite(layer, self.total[layer])
        if layer == 0:
            self.n_positions += len(positions)

    def statistics(self) -> KeyStatistics:
        return KeyStatistics(self.n_positions, self.n_active, self.total, self.square, self.low, self.high, self.histogram)

    def triggers(self) -> KeyTriggers:
        levels = np.take_along_axis(self.levels, self.places[..., None], -2)
        return KeyTriggers(
            self.best * np.array([1, -1], np.float32)[:, None, None], self.best_positions, levels, np.take_along_axis(self.scales, self.places, -1)
        )


class TorchKeys:
    """Running reductions of all keys on any torch device; the same results as CpuKeys, to float64 rounding in the moments."""

    def __init__(self, n_layers: int, d_ffn: int, k: int, device: torch.device) -> None:
        self.shape, self.k, self.device = (n_layers, d_ffn), k, device
        self.best = torch.full((n_layers, 2, d_ffn, k), -torch.inf, device=device)
        self.best_positions = torch.full((n_layers, 2, d_ffn, k), NOWHERE, dtype=torch.int64, device=device)
        self.levels = torch.full((n_layers, 2, d_ffn, k, PRECEDING), ABSENT, dtype=torch.int8, device=device)
        self.scales = torch.zeros((n_layers, 2, d_ffn, k), device=device)
        self.edges = torch.tensor(histogram_edges()[:-1], device=device)
        self.reset_statistics()

    def reset_statistics(self) -> None:
        def full(value: float, dtype: torch.dtype) -> Tensor:
            return torch.full(self.shape, value, dtype=dtype, device=self.device)

        self.n_positions = 0
        self.total, self.square = full(0, torch.float64), full(0, torch.float64)
        self.low, self.high = full(torch.inf, torch.float32), full(-torch.inf, torch.float32)
        self.n_active = full(0, torch.int64)
        self.histogram = torch.zeros((*self.shape, HISTOGRAM_BINS), dtype=torch.int64, device=self.device)

    def seed(self, coefficients: np.ndarray, positions: np.ndarray) -> None:
        known = torch.from_numpy(positions).to(self.device)
        signed = torch.from_numpy(coefficients).to(self.device) * torch.tensor([1.0, -1.0], device=self.device)[:, None, None]
        signed = signed.masked_fill(known == NOWHERE, -torch.inf)
        order = best_first(signed, known, self.k)
        self.best, self.best_positions = signed.gather(-1, order), known.gather(-1, order)

    def add(self, layer: int, coefficients: Tensor, positions: np.ndarray, indices: np.ndarray) -> None:
        row_positions, row_indices = torch.from_numpy(positions).to(self.device), torch.from_numpy(indices).to(self.device)
        x = coefficients.detach().float()[row_positions >= 0]
        row_positions, row_indices = row_positions[row_positions >= 0], row_indices[row_positions >= 0]
        wide = x.double()
        self.total[layer] += wide.sum(0)
        self.square[layer] += (wide * wide).sum(0)
        self.low[layer] = torch.minimum(self.low[layer], x.amin(0))
        self.high[layer] = torch.maximum(self.high[layer], x.amax(0))
        self.n_active[layer] += (x > 0).sum(0)
        self.histogram[layer] += count_bins(x, self.edges)
        for tail in (0, 1):
            self.merge(layer, tail, x, row_positions, row_indices)
        check_finite(layer, self.total[layer].cpu().numpy())
        if layer == 0:
            self.n_positions += len(x)

    def merge(self, layer: int, tail: int, x: Tensor, positions: Tensor, indices: Tensor) -> None:
        """Rank the few coefficients that reach their neuron's k-th best against what is kept."""
        signed = -x if tail else x
        row, neuron = torch.nonzero(signed >= self.best[layer, tail, :, -1], as_tuple=True)
        if len(row) == 0:
            return
        neuron, order = torch.sort(neuron, stable=True)
        row = row[order]
        count = torch.bincount(neuron, minlength=x.shape[1])
        place = torch.arange(len(row), device=self.device) - (count.cumsum(0) - count)[neuron]
        shape = (x.shape[1], int(count.max()))
        candidates = torch.full(shape, -torch.inf, device=self.device)
        candidate_positions = torch.full(shape, NOWHERE, dtype=torch.int64, device=self.device)
        rows = torch.zeros(shape, dtype=torch.int64, device=self.device)
        candidates[neuron, place] = signed[row, neuron]
        candidate_positions[neuron, place] = positions[row]
        rows[neuron, place] = row
        candidates = torch.cat([self.best[layer, tail], candidates], 1)
        candidate_positions = torch.cat([self.best_positions[layer, tail], candidate_positions], 1)
        order = best_first(candidates, candidate_positions, self.k)
        self.best[layer, tail], self.best_positions[layer, tail] = candidates.gather(1, order), candidate_positions.gather(1, order)
        self.keep_preceding(layer, tail, x, indices, order, rows)

    def keep_preceding(self, layer: int, tail: int, x: Tensor, indices: Tensor, order: Tensor, rows: Tensor) -> None:
        """The coefficients before each trigger, moved or new. order: [d_ffn, k], below k one that was kept, else k and its place in `rows`."""
        kept = order.clamp(max=self.k - 1)
        levels, scales = self.levels[layer, tail].gather(1, kept[..., None].expand(-1, -1, PRECEDING)), self.scales[layer, tail].gather(1, kept)
        neuron, place = torch.nonzero(order >= self.k, as_tuple=True)
        row = rows[neuron, order[neuron, place] - self.k]
        levels[neuron, place], scales[neuron, place] = preceding(x, row, neuron, indices[row])
        self.levels[layer, tail], self.scales[layer, tail] = levels, scales

    def statistics(self) -> KeyStatistics:
        arrays = (self.n_active, self.total, self.square, self.low, self.high, self.histogram)
        return KeyStatistics(self.n_positions, *(a.cpu().numpy() for a in arrays))

    def triggers(self) -> KeyTriggers:
        signed = self.best * torch.tensor([1.0, -1.0], device=self.device)[:, None, None]
        return KeyTriggers(signed.cpu().numpy(), self.best_positions.cpu().numpy(), self.levels.cpu().numpy(), self.scales.cpu().numpy())


def preceding(x: Tensor, row: Tensor, neuron: Tensor, n_before: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients at the PRECEDING rows before some cells of x [rows, d_ffn], as int8 levels of the largest, and a level's size: [n, PRECEDING], [n].

    n_before: rows of the cell's sequence before it; what would lie before the first is ABSENT.
    """
    back = torch.arange(PRECEDING, 0, -1, device=x.device)
    is_there = back <= n_before[:, None]
    found = x[(row[:, None] - back).clamp(min=0), neuron[:, None]].masked_fill(~is_there, 0)
    scales = found.abs().amax(1) / 127
    levels = torch.where(scales[:, None] > 0, found / scales[:, None], 0).round().to(torch.int8)
    return levels.masked_fill(~is_there, ABSENT), scales


def best_first(coefficients: Tensor, positions: Tensor, k: int) -> Tensor:
    """Indices of the k largest along the last dimension, ties by smaller position, in that order."""
    by_position = torch.argsort(positions, dim=-1, stable=True)
    order = torch.argsort(coefficients.gather(-1, by_position), dim=-1, descending=True, stable=True)[..., :k]
    return by_position.gather(-1, order)


def count_bins(x: Tensor, edges: Tensor) -> Tensor:
    """Histogram of each column: [rows, d_ffn] → [d_ffn, HISTOGRAM_BINS]; the bins of schema.terms.histogram_edges."""
    bins = torch.where(x < 0, torch.searchsorted(edges, x, right=False), torch.searchsorted(edges, x, right=True))
    flat = bins + torch.arange(x.shape[1], device=x.device) * HISTOGRAM_BINS
    return torch.bincount(flat.flatten(), minlength=x.shape[1] * HISTOGRAM_BINS).view(x.shape[1], HISTOGRAM_BINS)


def new_keys(n_layers: int, d_ffn: int, k: int, device: torch.device) -> CpuKeys | TorchKeys:
    """The reduction that fits where the coefficients are."""
    return CpuKeys(n_layers, d_ffn, k) if device.type == "cpu" else TorchKeys(n_layers, d_ffn, k, device)
