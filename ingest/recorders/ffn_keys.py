"""What the sweep keeps of every key: exact top-k triggers of both tails, moments and a histogram of the coefficients.

Source: trigger examples of Geva et al. 2021, section 3, kept for both tails because the sign of a gated FFN's coefficient
is not identifiable. Two reductions with the same results: `CpuKeys` (one compiled pass) and `TorchKeys` (any device, torch_keys.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ingest.recorders.key_kernel import ABSENT, MAX_ROWS, NOWHERE, reduce_rows
from ingest.workers.finite import NotFinite
from schema.terms import HISTOGRAM_BINS, PRECEDING

Add = Callable[[int, Tensor], None]
"""Takes the coefficients of one layer, [rows, d_ffn], at the rows of a batch."""


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
    contexts: of each, one of no other of its key and tail; None where contexts do not matter.
    """

    coefficients: np.ndarray
    positions: np.ndarray
    levels: np.ndarray
    scales: np.ndarray
    contexts: np.ndarray | None = None


def check_finite(layer: int, total: np.ndarray) -> None:
    """Raise NotFinite if a running sum of coefficients is NaN or infinite: nothing non-finite is ever stored."""
    if not np.isfinite(total).all():
        neurons = np.flatnonzero(~np.isfinite(total))
        raise NotFinite(
            f"layer {layer}: NaN or infinite coefficients in {len(neurons)} neurons (first: L{layer}N{neurons[0]}); nothing of this batch was stored"
        )


class CpuKeys:
    """Running reductions of all keys on the CPU. is_distinct: triggers of a key and tail have contexts of their own. held: what they have come to."""

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
        """Start the statistics of a new shard; triggers go on, so that a later shard carries only what beats them."""
        self.n_positions = 0
        self.total, self.square = np.zeros(self.shape), np.zeros(self.shape)
        self.low, self.high = np.full(self.shape, np.inf, np.float32), np.full(self.shape, -np.inf, np.float32)
        self.n_active = np.zeros(self.shape, np.int64)
        self.histogram = np.zeros((*self.shape, HISTOGRAM_BINS), np.int64)

    def seed(self, coefficients: np.ndarray, positions: np.ndarray, contexts: np.ndarray | None = None) -> None:
        """Start from triggers already known, as in KeyTriggers. Any order: a heap is a sorted array, worst first."""
        signed = coefficients * np.array([1, -1], np.float32)[:, None, None]
        signed = np.where(positions == NOWHERE, np.float32(-np.inf), signed)
        order = np.lexsort((-positions, signed), axis=-1)
        self.best = np.ascontiguousarray(np.take_along_axis(signed, order, -1))
        self.best_positions = np.ascontiguousarray(np.take_along_axis(positions, order, -1))
        if contexts is not None:
            self.contexts = np.ascontiguousarray(np.take_along_axis(contexts, order, -1))

    def batch(self, positions: np.ndarray, indices: np.ndarray, contexts: np.ndarray | None = None) -> Add:
        """Bind the rows of a batch, those of a sequence one after the other, and return what takes their coefficients.

        positions, indices: position_id of each row, -1 where it does not count, and its place in its sequence, [rows] int64.
        contexts: a number of each row's; of rows with one number a key keeps the best. None where they do not matter.
        """
        return partial(self.add, np.flatnonzero(positions >= 0), positions, indices, np.empty(0, np.int64) if contexts is None else contexts)

    def add(self, rows: np.ndarray, positions: np.ndarray, indices: np.ndarray, contexts: np.ndarray, layer: int, coefficients: Tensor) -> None:
        """Reduce the coefficients of a layer. rows: numbers of those that count."""
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
