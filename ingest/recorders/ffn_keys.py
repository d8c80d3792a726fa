"""The sweep's record of every key: exact top-k triggers of both tails, moments and a histogram of the coefficients.

Source: trigger examples of Geva et al. 2021, section 3; both tails are stored because the sign of a gated FFN's coefficient
is not identifiable. Two reductions give the same results: `CpuKeys` (one compiled pass) and `TorchKeys` (any device, torch_keys.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ingest.recorders.top_k_kernel import ABSENT, MAX_ROWS, NOWHERE, reduce_rows
from ingest.workers.finite import NotFinite
from schema.terms import HISTOGRAM_BINS, PRECEDING

Add = Callable[[int, Tensor], None]
"""Function that takes a layer and its coefficients, [rows, d_ffn], at the rows of a batch."""


@dataclass(frozen=True)
class KeyStatistics:
    """Statistics of each neuron's coefficients over the positions seen, [n_layers, d_ffn] each; histogram: [n_layers, d_ffn, HISTOGRAM_BINS]."""

    n_positions: int
    n_active: np.ndarray
    total: np.ndarray
    square: np.ndarray
    low: np.ndarray
    high: np.ndarray
    histogram: np.ndarray


@dataclass(frozen=True)
class KeyTriggers:
    """The k best triggers of each key and tail so far, unordered: [n_layers, 2 (max, min), d_ffn, k].

    coefficients: with their own sign (the min tail is not negated). positions: NOWHERE in the places left over if fewer than k positions were seen.
    levels: the coefficients at the PRECEDING tokens before each trigger, in units of `scales`; ABSENT before the sequence's start. Triggers that were
    known before the reduction began (`seed`) have no levels.
    contexts: number of each trigger's context, its last tokens; no two triggers of a key and tail have the same. None if contexts do not matter.
    """

    coefficients: np.ndarray
    positions: np.ndarray
    levels: np.ndarray
    scales: np.ndarray
    contexts: np.ndarray | None = None


def check_finite(layer: int, total: np.ndarray) -> None:
    """Raise NotFinite if a running sum of coefficients is NaN or infinite, so that no such number is stored."""
    if not np.isfinite(total).all():
        neurons = np.flatnonzero(~np.isfinite(total))
        raise NotFinite(
            f"layer {layer}: NaN or infinite coefficients in {len(neurons)} neurons (first: L{layer}N{neurons[0]}); nothing of this batch was stored"
        )


class CpuKeys:
    """Running reductions of all keys on the CPU.

    is_distinct: no two triggers of a key and tail have the same context. held: names of the attributes with the results so far.
    """

    held = (
        "best", "best_positions", "places", "levels", "scales", "contexts", "n_positions", "total", "square", "low", "high", "n_active", "histogram",
    )  # fmt: skip

    def __init__(self, n_layers: int, d_ffn: int, k: int, is_distinct: bool = False) -> None:
        self.shape = (n_layers, d_ffn)
        self.best = np.full((n_layers, 2, d_ffn, k), -np.inf, np.float32)
        self.best_positions = np.full((n_layers, 2, d_ffn, k), NOWHERE, np.int64)
        self.places = np.broadcast_to(np.arange(k, dtype=np.int32), self.best.shape).copy()
        self.levels = np.full((*self.best.shape, PRECEDING), ABSENT, np.int8)
        self.scales = np.zeros(self.best.shape, np.float32)
        self.contexts = np.zeros((*self.best.shape[:-1], k if is_distinct else 0), np.int64)
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Reset the statistics for a new shard. Triggers stay, so that a later shard contributes only those that beat them."""
        self.n_positions = 0
        self.total, self.square = np.zeros(self.shape), np.zeros(self.shape)
        self.low, self.high = np.full(self.shape, np.inf, np.float32), np.full(self.shape, -np.inf, np.float32)
        self.n_active = np.zeros(self.shape, np.int64)
        self.histogram = np.zeros((*self.shape, HISTOGRAM_BINS), np.int64)

    def seed(self, coefficients: np.ndarray, positions: np.ndarray, contexts: np.ndarray | None = None) -> None:
        """Start from triggers already known, in the layout of KeyTriggers and in any order.

        This method sorts them worst first, which makes each array a heap.
        """
        signed = coefficients * np.array([1, -1], np.float32)[:, None, None]
        signed = np.where(positions == NOWHERE, np.float32(-np.inf), signed)
        order = np.lexsort((-positions, signed), axis=-1)
        self.best = np.ascontiguousarray(np.take_along_axis(signed, order, -1))
        self.best_positions = np.ascontiguousarray(np.take_along_axis(positions, order, -1))
        if contexts is not None:
            self.contexts = np.ascontiguousarray(np.take_along_axis(contexts, order, -1))

    def batch(self, positions: np.ndarray, indices: np.ndarray, contexts: np.ndarray | None = None) -> Add:
        """Bind the rows of a batch and return the function that takes their coefficients. Rows of one sequence are consecutive.

        positions: position_id of each row, -1 if the row does not count. indices: place of each row in its sequence. Both are [rows] int64.
        contexts: number of each row's context; a key keeps only the best of the rows with the same number. None if contexts do not matter.
        """
        return partial(self.add, np.flatnonzero(positions >= 0), positions, indices, np.empty(0, np.int64) if contexts is None else contexts)

    def add(self, rows: np.ndarray, positions: np.ndarray, indices: np.ndarray, contexts: np.ndarray, layer: int, coefficients: Tensor) -> None:
        """Reduce the coefficients of a layer. rows: numbers of the rows that count."""
        x = coefficients.detach().float().contiguous().numpy()
        n_threads = torch.get_num_threads()
        for start in range(0, len(rows), MAX_ROWS):
            reduce_rows(
                x, x.view(np.int32), rows[start : start + MAX_ROWS], positions, indices, contexts,
                self.total[layer], self.square[layer], self.low[layer], self.high[layer], self.n_active[layer], self.histogram[layer],
                self.best[layer], self.best_positions[layer], self.places[layer], self.levels[layer], self.scales[layer], self.contexts[layer],
                n_threads,
            )  # fmt: skip
        # numba's first parallel loop sets the number of OpenMP's threads, which torch shares, to that of all cores
        torch.set_num_threads(n_threads)
        check_finite(layer, self.total[layer])
        if layer == 0:
            self.n_positions += len(rows)

    def statistics(self) -> KeyStatistics:
        return KeyStatistics(self.n_positions, self.n_active, self.total, self.square, self.low, self.high, self.histogram)

    def triggers(self) -> KeyTriggers:
        levels = np.take_along_axis(self.levels, self.places[..., None], -2)
        scales = np.take_along_axis(self.scales, self.places, -1)
        contexts = np.take_along_axis(self.contexts, self.places, -1) if self.contexts.size else None
        return KeyTriggers(self.best * np.array([1, -1], np.float32)[:, None, None], self.best_positions, levels, scales, contexts)
