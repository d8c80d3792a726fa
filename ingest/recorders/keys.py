"""What the sweep keeps of every key: exact top-k triggers of both tails, moments and a histogram of the coefficients.

Source: trigger examples of Geva et al. 2021, section 3, kept for both tails because the sign of a gated FFN's coefficient
is not identifiable. Two reductions with the same results: `CpuKeys` (one compiled pass) and `TorchKeys` (any device).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ingest.recorders.kernel import MAX_ROWS, NOWHERE, reduce_rows
from schema.errors import AtlasError
from schema.terms import HISTOGRAM_BINS, histogram_edges


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
    """

    coefficients: np.ndarray
    positions: np.ndarray


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
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Start the statistics of a new shard; triggers go on, so that a later shard carries only what beats them."""
        self.n_positions = 0
        self.total, self.square = np.zeros(self.shape), np.zeros(self.shape)
        self.low, self.high = np.full(self.shape, np.inf, np.float32), np.full(self.shape, -np.inf, np.float32)
        self.n_active = np.zeros(self.shape, np.int64)
        self.histogram = np.zeros((*self.shape, HISTOGRAM_BINS), np.int64)

    def seed(self, triggers: KeyTriggers) -> None:
        """Start from triggers already known. Any order: a heap is a sorted array, worst first."""
        signed = triggers.coefficients * np.array([1, -1], np.float32)[:, None, None]
        signed = np.where(triggers.positions == NOWHERE, np.float32(-np.inf), signed)
        order = np.lexsort((-triggers.positions, signed), axis=-1)
        self.best = np.ascontiguousarray(np.take_along_axis(signed, order, -1))
        self.best_positions = np.ascontiguousarray(np.take_along_axis(triggers.positions, order, -1))

    def add(self, layer: int, coefficients: Tensor, positions: np.ndarray) -> None:
        """coefficients: [rows, d_ffn] of one layer; positions: position_id of each row, [rows] int64, -1 where padded."""
        real = positions >= 0
        x = coefficients.detach().float().contiguous().numpy()
        if not real.all():
            x, positions = x[real], positions[real]
        n_threads = torch.get_num_threads()
        for start in range(0, len(x), MAX_ROWS):
            part = x[start : start + MAX_ROWS]
            reduce_rows(
                part, part.view(np.int32), positions[start : start + MAX_ROWS],
                self.total[layer], self.square[layer], self.low[layer], self.high[layer], self.n_active[layer], self.histogram[layer],
                self.best[layer], self.best_positions[layer], n_threads,
            )  # fmt: skip
        # numba's first parallel loop sets the number of OpenMP's threads, which torch shares, to that of all cores
        torch.set_num_threads(n_threads)
        check_finite(layer, self.total[layer])
        if layer == 0:
            self.n_positions += len(positions)

    def statistics(self) -> KeyStatistics:
        return KeyStatistics(self.n_positions, self.n_active, self.total, self.square, self.low, self.high, self.histogram)

    def triggers(self) -> KeyTriggers:
        return KeyTriggers(self.best * np.array([1, -1], np.float32)[:, None, None], self.best_positions)


class TorchKeys:
    """Running reductions of all keys on any torch device; the same results as CpuKeys, to float64 rounding in the moments."""

    def __init__(self, n_layers: int, d_ffn: int, k: int, device: torch.device) -> None:
        self.shape, self.k, self.device = (n_layers, d_ffn), k, device
        self.best = torch.full((n_layers, 2, d_ffn, k), -torch.inf, device=device)
        self.best_positions = torch.full((n_layers, 2, d_ffn, k), NOWHERE, dtype=torch.int64, device=device)
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

    def seed(self, triggers: KeyTriggers) -> None:
        positions = torch.from_numpy(triggers.positions).to(self.device)
        signed = torch.from_numpy(triggers.coefficients).to(self.device) * torch.tensor([1.0, -1.0], device=self.device)[:, None, None]
        signed = signed.masked_fill(positions == NOWHERE, -torch.inf)
        self.best, self.best_positions = best_first(signed, positions, self.k)

    def add(self, layer: int, coefficients: Tensor, positions: np.ndarray) -> None:
        row_positions = torch.from_numpy(positions).to(self.device)
        x = coefficients.detach().float()[row_positions >= 0]
        row_positions = row_positions[row_positions >= 0]
        wide = x.double()
        self.total[layer] += wide.sum(0)
        self.square[layer] += (wide * wide).sum(0)
        self.low[layer] = torch.minimum(self.low[layer], x.amin(0))
        self.high[layer] = torch.maximum(self.high[layer], x.amax(0))
        self.n_active[layer] += (x > 0).sum(0)
        self.histogram[layer] += count_bins(x, self.edges)
        for tail, signed in enumerate((x, -x)):
            self.merge(layer, tail, signed, row_positions)
        check_finite(layer, self.total[layer].cpu().numpy())
        if layer == 0:
            self.n_positions += len(x)

    def merge(self, layer: int, tail: int, x: Tensor, positions: Tensor) -> None:
        """Rank the few coefficients that reach their neuron's k-th best against what is kept."""
        row, neuron = torch.nonzero(x >= self.best[layer, tail, :, -1], as_tuple=True)
        if len(row) == 0:
            return
        neuron, order = torch.sort(neuron, stable=True)
        row = row[order]
        count = torch.bincount(neuron, minlength=x.shape[1])
        place = torch.arange(len(row), device=self.device) - (count.cumsum(0) - count)[neuron]
        shape = (x.shape[1], int(count.max()))
        candidates = torch.full(shape, -torch.inf, device=self.device)
        candidate_positions = torch.full(shape, NOWHERE, dtype=torch.int64, device=self.device)
        candidates[neuron, place] = x[row, neuron]
        candidate_positions[neuron, place] = positions[row]
        self.best[layer, tail], self.best_positions[layer, tail] = best_first(
            torch.cat([self.best[layer, tail], candidates], 1), torch.cat([self.best_positions[layer, tail], candidate_positions], 1), self.k
        )

    def statistics(self) -> KeyStatistics:
        arrays = (self.n_active, self.total, self.square, self.low, self.high, self.histogram)
        return KeyStatistics(self.n_positions, *(a.cpu().numpy() for a in arrays))

    def triggers(self) -> KeyTriggers:
        signed = self.best * torch.tensor([1.0, -1.0], device=self.device)[:, None, None]
        return KeyTriggers(signed.cpu().numpy(), self.best_positions.cpu().numpy())


def best_first(coefficients: Tensor, positions: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest along the last dimension, ties by smaller position, in that order."""
    by_position = torch.argsort(positions, dim=-1, stable=True)
    coefficients, positions = coefficients.gather(-1, by_position), positions.gather(-1, by_position)
    order = torch.argsort(coefficients, dim=-1, descending=True, stable=True)[..., :k]
    return coefficients.gather(-1, order), positions.gather(-1, order)


def count_bins(x: Tensor, edges: Tensor) -> Tensor:
    """Histogram of each column: [rows, d_ffn] → [d_ffn, HISTOGRAM_BINS]; the bins of schema.terms.histogram_edges."""
    bins = torch.where(x < 0, torch.searchsorted(edges, x, right=False), torch.searchsorted(edges, x, right=True))
    flat = bins + torch.arange(x.shape[1], device=x.device) * HISTOGRAM_BINS
    return torch.bincount(flat.flatten(), minlength=x.shape[1] * HISTOGRAM_BINS).view(x.shape[1], HISTOGRAM_BINS)


def new_keys(n_layers: int, d_ffn: int, k: int, device: torch.device) -> CpuKeys | TorchKeys:
    """The reduction that fits where the coefficients are."""
    return CpuKeys(n_layers, d_ffn, k) if device.type == "cpu" else TorchKeys(n_layers, d_ffn, k, device)
