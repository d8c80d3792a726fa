"""The sweep's reductions on any torch device: the same results as CpuKeys, to float64 rounding in the moments.

The reductions of a layer are on the device of its coefficients. They are replaced in one step at the end of `add`, since memory may run out before that, and
the same rows then come again. The cells that may be new triggers are fetched only when the next layer comes, so that the device always has work. They are
merged into the triggers only when many wait, since each batch after the first few has few such cells.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ingest.model.device import send_to_device
from ingest.model.models import Model
from ingest.recorders.ffn_keys import Add, CpuKeys, KeyStatistics, KeyTriggers, check_finite
from ingest.recorders.scan import Batch, Cells, Moments, Triggers, better_cells, torch_scan
from ingest.recorders.top_k_kernel import ABSENT, NOWHERE
from schema.terms import HISTOGRAM_BINS, PRECEDING

WAITING_SHARE = 0.25
"""Number of waiting candidates above which they are merged, as a share of the number of triggers."""

MANY = 2**62
"""Number of rows far above that of any batch, for triggers that are known from the start."""


class Candidates(NamedTuple):
    """Cells that may be triggers, with the fields of `Triggers`: [n] each, levels [n, PRECEDING].

    key: the neuron for the max tail, d_ffn plus the neuron for the min tail.
    """

    key: Tensor
    best: Tensor
    positions: Tensor
    levels: Tensor
    scales: Tensor
    contexts: Tensor


class Layer(NamedTuple):
    """Reductions of one layer. waiting: candidates not yet merged into the triggers. n_seen: number of rows that the triggers were selected from."""

    moments: Moments
    triggers: Triggers
    waiting: tuple[Candidates, ...]
    n_seen: int


class Rows(NamedTuple):
    """Rows of a batch on one device, with the fields of `Batch` except x."""

    positions: Tensor
    indices: Tensor
    counted: Tensor
    contexts: Tensor


class TorchKeys:
    """Running reductions of all keys. devices: where each layer's coefficients are. is_distinct: as in CpuKeys."""

    def __init__(self, devices: Iterable[torch.device], d_ffn: int, k: int, is_distinct: bool = False) -> None:
        self.d_ffn, self.k, self.devices = d_ffn, k, list(devices)
        self.layers = [Layer(no_moments(d_ffn, device), no_triggers(d_ffn, k, device, is_distinct), (), 0) for device in self.devices]
        self.unsettled: tuple[int, Batch, Callable[[], Cells]] | None = None
        self.n_positions = 0

    def reset_statistics(self) -> None:
        """Reset the statistics for a new shard, as CpuKeys does."""
        self.n_positions = 0
        self.layers = [layer._replace(moments=no_moments(self.d_ffn, device)) for layer, device in zip(self.layers, self.devices, strict=True)]

    def seed(self, coefficients: np.ndarray, positions: np.ndarray, contexts: np.ndarray | None = None) -> None:
        """Start from triggers already known, as CpuKeys does."""
        n_seen = 0 if (positions == NOWHERE).any() else MANY
        for i, device in enumerate(self.devices):
            known = torch.from_numpy(positions[i].reshape(-1, self.k)).to(device)
            signed = torch.from_numpy((coefficients[i] * np.array([1, -1], np.float32)[:, None, None]).reshape(-1, self.k)).to(device)
            triggers = self.layers[i].triggers._replace(best=signed.masked_fill(known == NOWHERE, -torch.inf), positions=known)
            if contexts is not None:
                triggers = triggers._replace(contexts=torch.from_numpy(contexts[i].reshape(-1, self.k, 1)).to(device))
            self.layers[i] = self.layers[i]._replace(triggers=merge_candidates(triggers, ()), n_seen=n_seen)

    def batch(self, positions: np.ndarray, indices: np.ndarray, contexts: np.ndarray | None = None) -> Add:
        """Bind the rows of a batch, as CpuKeys does."""
        # lets go of the batch before, also where memory ran out in it
        self.settle()
        numbers = np.empty((len(positions), 0), np.int64) if contexts is None else contexts[:, None]
        of_rows = (positions, indices, np.flatnonzero(positions >= 0), numbers)
        return partial(self.add, {device: Rows(*(send_to_device(each, device) for each in of_rows)) for device in set(self.devices)})

    def add(self, rows: dict[torch.device, Rows], layer: int, coefficients: Tensor) -> None:
        """Reduce all the coefficients of a layer or, if memory runs out, none."""
        self.settle()
        known, batch = self.layers[layer], Batch(coefficients.detach(), *rows[self.devices[layer]])
        n_rows, is_late = len(batch.x), known.n_seen // 4 >= len(batch.x)
        moments, found = torch_scan(batch, known.moments, known.triggers if is_late else None)
        known = known._replace(moments=moments)
        # what is found among many rows, beside those before, is much: it comes in parts, each compared with the best of those before
        for first, end in [] if is_late else parts(known.n_seen, n_rows, self.k):
            known = add_cells(known, batch, better_cells(batch, known.triggers, first, end))
        self.layers[layer] = known._replace(n_seen=known.n_seen + n_rows)
        self.unsettled = (layer, batch, found) if is_late else None
        if layer == 0:
            self.n_positions += len(batch.counted)

    def settle(self) -> None:
        """Fetch the cells that the last call of `add` has searched for, and add them to the waiting candidates of their layer."""
        if self.unsettled:
            layer, batch, found = self.unsettled
            self.layers[layer] = add_cells(self.layers[layer], batch, found())
            self.unsettled = None

    def statistics(self) -> KeyStatistics:
        """Build the statistics. Raises NotFinite if a coefficient was NaN or infinite.

        Coefficients are not checked after each batch, since that would mean waiting for the device.
        """
        n_active, total, square, low, high, histogram = (stack_layers(parts) for parts in zip(*(layer.moments for layer in self.layers), strict=True))
        for layer, totals in enumerate(total):
            check_finite(layer, totals)
        return KeyStatistics(self.n_positions, n_active, total, square, low, high, histogram)

    def triggers(self) -> KeyTriggers:
        self.settle()
        for i, layer in enumerate(self.layers):
            self.layers[i] = merge_waiting(layer)
        best, positions, levels, scales, contexts = (stack_layers(parts) for parts in zip(*(layer.triggers for layer in self.layers), strict=True))
        shape = (len(self.layers), 2, self.d_ffn, self.k)
        signed = best.reshape(shape) * np.array([1, -1], np.float32)[:, None, None]
        numbers = contexts.reshape(shape) if contexts.size else None
        return KeyTriggers(signed, positions.reshape(shape), levels.reshape(*shape, PRECEDING), scales.reshape(shape), numbers)


def stack_layers(parts: Iterable[Tensor]) -> np.ndarray:
    """Stack the layers' tensors, from whichever devices, into one array."""
    return np.stack([part.cpu().numpy() for part in parts])


def parts(n_seen: int, n_rows: int, k: int) -> Iterator[tuple[int, int]]:
    """Yield (first row, end) of each part of a batch; a batch is searched part by part.

    A part is so small that few of its coefficients are better than the k-th best of the rows before it.
    """
    first = 0
    while first < n_rows:
        end = min(n_rows, first + max(4 * k, (n_seen + first) // 4))
        yield first, end
        first = end


def no_moments(d_ffn: int, device: torch.device) -> Moments:
    def full_per_neuron(value: float, dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.full((d_ffn, *shape), value, dtype=dtype, device=device)

    return Moments(
        n_active=full_per_neuron(0, torch.int64),
        total=full_per_neuron(0, torch.float64),
        square=full_per_neuron(0, torch.float64),
        low=full_per_neuron(torch.inf, torch.float32),
        high=full_per_neuron(-torch.inf, torch.float32),
        histogram=full_per_neuron(0, torch.int64, HISTOGRAM_BINS),
    )


def no_triggers(d_ffn: int, k: int, device: torch.device, is_distinct: bool = False) -> Triggers:
    return Triggers(
        best=torch.full((2 * d_ffn, k), -torch.inf, device=device),
        positions=torch.full((2 * d_ffn, k), NOWHERE, dtype=torch.int64, device=device),
        levels=torch.full((2 * d_ffn, k, PRECEDING), ABSENT, dtype=torch.int8, device=device),
        scales=torch.zeros((2 * d_ffn, k), device=device),
        contexts=torch.zeros((2 * d_ffn, k, int(is_distinct)), dtype=torch.int64, device=device),
    )


def add_cells(layer: Layer, batch: Batch, cells: Cells) -> Layer:
    """Add cells found in a batch to the waiting candidates of a layer, and merge all of these into its triggers if many wait."""
    row, key = cells
    if len(row) == 0:
        return layer
    neuron = key % batch.x.shape[1]
    signed = torch.where(key == neuron, batch.x[row, neuron].float(), -batch.x[row, neuron].float())
    levels, scales = preceding_levels(batch.x, row, neuron, batch.indices[row])
    layer = layer._replace(waiting=(*layer.waiting, Candidates(key, signed, batch.positions[row], levels, scales, batch.contexts[row])))
    n_waiting = sum(len(c.key) for c in layer.waiting)
    return merge_waiting(layer) if n_waiting > WAITING_SHARE * layer.triggers.best.numel() else layer


def merge_waiting(layer: Layer) -> Layer:
    return layer._replace(triggers=merge_candidates(layer.triggers, layer.waiting), waiting=()) if layer.waiting else layer


def merge_candidates(triggers: Triggers, waiting: tuple[Candidates, ...]) -> Triggers:
    """Select the k best of each key's triggers and candidates, best first; ties go to the smaller position.

    If contexts matter, only the best of those with the same context counts.
    """
    n_keys, k = triggers.best.shape
    keys = torch.arange(n_keys, device=triggers.best.device)
    known = Candidates(keys.repeat_interleave(k), *(kept.flatten(0, 1) for kept in triggers))
    both = Candidates(*(torch.cat(parts) for parts in zip(known, *waiting, strict=True)))
    if both.contexts.numel():
        both = without_repeats(both)
    order = best_first_order(both)
    order = order[torch.argsort(both.key[order], stable=True)]
    firsts = torch.searchsorted(both.key[order], keys)
    chosen = order[firsts[:, None] + torch.arange(k, device=keys.device)]
    return Triggers(*(field[chosen] for field in both[1:]))


def best_first_order(found: Candidates) -> Tensor:
    """Order candidates by descending coefficient, then ascending position: [n]."""
    order = torch.argsort(found.positions, stable=True)
    return order[torch.argsort(found.best[order], descending=True, stable=True)]


def without_repeats(found: Candidates) -> Candidates:
    """Blank out each candidate that has the same key and context as a better one."""
    order, contexts = best_first_order(found), found.contexts[:, 0]
    for by in (contexts, found.key):
        order = order[torch.argsort(by[order], stable=True)]
    before, after = order[:-1], order[1:]
    is_repeat = (found.key[before] == found.key[after]) & (contexts[before] == contexts[after]) & (found.positions[before] != NOWHERE)
    repeats = after[is_repeat]
    return found._replace(best=found.best.index_fill(0, repeats, -torch.inf), positions=found.positions.index_fill(0, repeats, NOWHERE))


def preceding_levels(x: Tensor, row: Tensor, neuron: Tensor, n_before: Tensor) -> tuple[Tensor, Tensor]:
    """Compute levels of the coefficients at the PRECEDING rows before some cells of x [rows, d_ffn]: int8 [n, PRECEDING], and a level's size, [n].

    A level is a 127th of the largest modulus before the cell. n_before: rows of the cell's sequence before it; levels before the first row are ABSENT.
    """
    back = torch.arange(PRECEDING, 0, -1, device=x.device)
    is_there = back <= n_before[:, None]
    found = x[(row[:, None] - back).clamp(min=0), neuron[:, None]].float().masked_fill(~is_there, 0)
    scales = found.abs().amax(1) / 127
    levels = torch.where(scales[:, None] > 0, found / scales[:, None], 0).round().to(torch.int8)
    return levels.masked_fill(~is_there, ABSENT), scales


def counting_code(kinds: set[str]) -> str:
    """Name the code that reduces the coefficients on devices of these kinds."""
    return "numba's kernel" if kinds == {"cpu"} else "torch's operations"


def new_keys(model: Model, k: int, is_distinct: bool = False) -> CpuKeys | TorchKeys:
    """Make the reduction for the devices of the coefficients: CpuKeys if all are CPUs, else TorchKeys."""
    devices = [model.layer_device(layer) for layer in range(model.n_layers)]
    if {device.type for device in devices} == {"cpu"}:
        return CpuKeys(model.n_layers, model.d_ffn, k, is_distinct)
    return TorchKeys(devices, model.d_ffn, k, is_distinct)
