"""The sweep's reductions on any torch device: the same results as CpuKeys, to float64 rounding in the moments.

Each layer's lie on the device that its coefficients come from. They are replaced in one step at the end of `add`: memory may run out within
it, and the same rows then come again.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ingest.device import sent
from ingest.models import Model
from ingest.recorders.kernel import ABSENT, NOWHERE
from ingest.recorders.keys import Add, CpuKeys, KeyStatistics, KeyTriggers, check_finite
from schema.terms import HISTOGRAM_BINS, PRECEDING, histogram_edges

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


class Tail(NamedTuple):
    """The k best of one layer and tail, best first; the min tail has its sign turned. [d_ffn, k] each, levels [d_ffn, k, PRECEDING]."""

    best: Tensor
    positions: Tensor
    levels: Tensor
    scales: Tensor


class Rows(NamedTuple):
    """Rows of a batch on a device. chosen: which are no padding, None for all; positions, indices: of those."""

    chosen: Tensor | None
    positions: Tensor
    indices: Tensor


class TorchKeys:
    """Running reductions of all keys. devices: where each layer's coefficients are."""

    def __init__(self, devices: Iterable[torch.device], d_ffn: int, k: int) -> None:
        self.d_ffn, self.k, self.devices = d_ffn, k, list(devices)
        self.edges = {device: torch.tensor(histogram_edges()[:-1]).to(device) for device in self.devices}
        self.tails = [[no_triggers(d_ffn, k, device) for _ in range(2)] for device in self.devices]
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """As CpuKeys."""
        self.n_positions = 0
        self.moments = [no_moments(self.d_ffn, device) for device in self.devices]

    def seed(self, coefficients: np.ndarray, positions: np.ndarray) -> None:
        """As CpuKeys."""
        for layer, device in enumerate(self.devices):
            for tail, sign in enumerate((1, -1)):
                known = torch.from_numpy(positions[layer, tail]).to(device)
                signed = (sign * torch.from_numpy(coefficients[layer, tail]).to(device)).masked_fill(known == NOWHERE, -torch.inf)
                order = best_first(signed, known, self.k)
                self.tails[layer][tail] = self.tails[layer][tail]._replace(best=signed.gather(-1, order), positions=known.gather(-1, order))

    def batch(self, positions: np.ndarray, indices: np.ndarray) -> Add:
        """As CpuKeys."""
        real = np.flatnonzero(positions >= 0)
        chosen = None if len(real) == len(positions) else real

        def on(device: torch.device) -> Rows:
            return Rows(None if chosen is None else sent(chosen, device), sent(positions[real], device), sent(indices[real], device))

        return partial(self.add, {device: on(device) for device in self.edges})

    def add(self, rows: dict[torch.device, Rows], layer: int, coefficients: Tensor) -> None:
        """All of it or, where memory runs out, nothing."""
        device = self.devices[layer]
        at = rows[device]
        x = coefficients.detach() if at.chosen is None else coefficients.detach()[at.chosen]
        x = x.float()
        moments = self.moments[layer]
        for part in x.split(max(1, COUNTED // self.d_ffn)):
            moments = counted(moments, part, self.edges[device])
        high, low = self.tails[layer]
        tails = [merged(high, x, x, at), merged(low, x, -x, at)]
        self.moments[layer], self.tails[layer] = moments, tails
        if layer == 0:
            self.n_positions += len(x)

    def statistics(self) -> KeyStatistics:
        """Raises AtlasError where a coefficient was NaN or infinite; asked for after each batch it would be waited for."""
        n_active, total, square, low, high, histogram = (stacked(parts) for parts in zip(*self.moments, strict=True))
        for layer, totals in enumerate(total):
            check_finite(layer, totals)
        return KeyStatistics(self.n_positions, n_active, total, square, low, high, histogram)

    def triggers(self) -> KeyTriggers:
        best, positions, levels, scales = (
            np.stack([stacked(getattr(tails[side], field) for tails in self.tails) for side in (0, 1)], 1) for field in Tail._fields
        )
        return KeyTriggers(best * np.array([1, -1], np.float32)[:, None, None], positions, levels, scales)


def stacked(parts: Iterable[Tensor]) -> np.ndarray:
    """The layers' tensors, wherever they are, as one array."""
    return np.stack([part.cpu().numpy() for part in parts])


def no_moments(d_ffn: int, device: torch.device) -> Moments:
    def full(value: float, dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.full((d_ffn, *shape), value, dtype=dtype, device=device)

    return Moments(
        n_active=full(0, torch.int64),
        total=full(0, torch.float64),
        square=full(0, torch.float64),
        low=full(torch.inf, torch.float32),
        high=full(-torch.inf, torch.float32),
        histogram=full(0, torch.int64, HISTOGRAM_BINS),
    )


def no_triggers(d_ffn: int, k: int, device: torch.device) -> Tail:
    return Tail(
        best=torch.full((d_ffn, k), -torch.inf, device=device),
        positions=torch.full((d_ffn, k), NOWHERE, dtype=torch.int64, device=device),
        levels=torch.full((d_ffn, k, PRECEDING), ABSENT, dtype=torch.int8, device=device),
        scales=torch.zeros((d_ffn, k), device=device),
    )


def counted(moments: Moments, x: Tensor, edges: Tensor) -> Moments:
    """With the coefficients x, [rows, d_ffn]."""
    wide = x.double()
    return Moments(
        n_active=moments.n_active + (x > 0).sum(0),
        total=moments.total + wide.sum(0),
        square=moments.square + wide.square_().sum(0),
        low=torch.minimum(moments.low, x.amin(0)),
        high=torch.maximum(moments.high, x.amax(0)),
        histogram=moments.histogram + count_bins(x, edges),
    )


def merged(tail: Tail, x: Tensor, signed: Tensor, at: Rows) -> Tail:
    """With those of the coefficients x, [rows, d_ffn], that are better, which few are. signed: x as the tail's sign has it."""
    row, neuron = torch.nonzero(signed >= tail.best[:, -1], as_tuple=True)
    if len(row) == 0:
        return tail
    neuron, order = torch.sort(neuron, stable=True)
    row = row[order]
    count = torch.bincount(neuron, minlength=x.shape[1])
    place = torch.arange(len(row), device=x.device) - (count.cumsum(0) - count)[neuron]
    shape = (x.shape[1], int(count.max()))
    candidates = torch.full(shape, -torch.inf, device=x.device)
    candidate_positions = torch.full(shape, NOWHERE, dtype=torch.int64, device=x.device)
    rows = torch.zeros(shape, dtype=torch.int64, device=x.device)
    candidates[neuron, place] = signed[row, neuron]
    candidate_positions[neuron, place] = at.positions[row]
    rows[neuron, place] = row
    candidates = torch.cat([tail.best, candidates], 1)
    candidate_positions = torch.cat([tail.positions, candidate_positions], 1)
    order = best_first(candidates, candidate_positions, tail.best.shape[1])
    levels, scales = kept_preceding(tail, x, at.indices, order, rows)
    return Tail(candidates.gather(1, order), candidate_positions.gather(1, order), levels, scales)


def kept_preceding(tail: Tail, x: Tensor, indices: Tensor, order: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The coefficients before each trigger, moved or new. order: [d_ffn, k], below k one that was kept, else k and its place in `rows`."""
    k = order.shape[1]
    kept = order.clamp(max=k - 1)
    levels, scales = tail.levels.gather(1, kept[..., None].expand(-1, -1, PRECEDING)), tail.scales.gather(1, kept)
    neuron, place = torch.nonzero(order >= k, as_tuple=True)
    row = rows[neuron, order[neuron, place] - k]
    levels[neuron, place], scales[neuron, place] = preceding(x, row, neuron, indices[row])
    return levels, scales


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


def new_keys(model: Model, k: int) -> CpuKeys | TorchKeys:
    """The reduction that fits where the coefficients are."""
    devices = [model.layer_device(layer) for layer in range(model.n_layers)]
    if all(device.type == "cpu" for device in devices):
        return CpuKeys(model.n_layers, model.d_ffn, k)
    return TorchKeys(devices, model.d_ffn, k)
