"""Torch's operations, which count on a GPU, against the kernel that counts on the processors."""

import numpy as np
import pytest
import torch

from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.scan import Batch, Triggers, better_cells, torch_scan
from ingest.recorders.torch_keys import TorchKeys, no_moments, no_triggers
from schema.terms import HISTOGRAM_BINS, PRECEDING_RANKS, histogram_edges

CPU = torch.device("cpu")
D_FFN, ROWS, K = 130, 263, 20


def batch_of(x: np.ndarray, positions: np.ndarray) -> Batch:
    return Batch(
        torch.from_numpy(x),
        torch.from_numpy(positions),
        torch.arange(len(x)),
        torch.from_numpy(np.flatnonzero(positions >= 0)),
        torch.empty((len(x), 0), dtype=torch.int64),
    )


def gated(high: np.ndarray, low: np.ndarray, position: int) -> Triggers:
    """Triggers whose k-th best of each neuron are given, at one position."""
    triggers = no_triggers(D_FFN, K, CPU)
    triggers.best[:] = torch.from_numpy(np.concatenate([high, -low]).astype(np.float32))[:, None]
    triggers.positions[:] = position
    return triggers


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("ties", [False, True])
def test_torch_keeps_what_the_kernel_keeps(dtype: torch.dtype, ties: bool) -> None:
    """Sequences of 40 rows of which the last 3 are padded, in batches out of order: everything the same, sums to their rounding."""
    rng, found = np.random.default_rng(1), [CpuKeys(2, D_FFN, K), TorchKeys([CPU] * 2, D_FFN, K)]
    for first in (400, 0, 800, 1200, 1600, 2000):
        x = rng.normal(size=(2, 400, D_FFN)) * np.exp(2 * rng.normal(size=(2, 400, D_FFN)))
        rows = torch.from_numpy(np.round(x) if ties else x).to(dtype)
        indices = np.tile(np.arange(40), 10)
        positions = np.where(indices < 37, first + np.arange(400), -1)
        for keys in found:
            add = keys.batch(positions, indices)
            for layer in range(2):
                add(layer, rows[layer])
    (kernel, triggers), (by_torch, same) = ((keys.statistics(), keys.triggers()) for keys in found)
    assert by_torch.n_positions == kernel.n_positions == 6 * 370
    for name in ("n_active", "low", "high", "histogram"):
        assert (getattr(by_torch, name) == getattr(kernel, name)).all(), name
    np.testing.assert_allclose(by_torch.total, kernel.total, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(by_torch.square, kernel.square, rtol=1e-12)
    order = np.lexsort((triggers.positions, -triggers.coefficients * np.array([1, -1])[:, None, None]))
    for name in ("coefficients", "positions", "scales"):
        assert (getattr(same, name) == np.take_along_axis(getattr(triggers, name), order, -1)).all(), name
    levels = np.take_along_axis(triggers.levels, order[..., None], 3)
    assert (same.levels[..., :PRECEDING_RANKS, :] == levels[..., :PRECEDING_RANKS, :]).all()


def test_the_cells_found_are_those_that_beat_the_gate() -> None:
    """Rounded, so that there are ties: positions fall from row to row, and of a tie the smaller one wins. Every eleventh row is padding."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(ROWS, D_FFN)) * 8).astype(np.float32) / 8
    positions = np.where(np.arange(ROWS) % 11 == 5, -1, np.arange(ROWS)[::-1] * 3).astype(np.int64)
    high, low = rng.integers(16, 24, D_FFN) / 8, -rng.integers(16, 24, D_FFN) / 8
    row, key = torch_scan(batch_of(x, positions), no_moments(D_FFN, CPU), gated(high, low, ROWS))[1]()
    is_early, is_real = (positions < ROWS)[:, None], (positions >= 0)[:, None]
    found = [is_real & ((x > high) | ((x == high) & is_early)), is_real & ((x < low) | ((x == low) & is_early))]
    expected = {(r, n + tail * D_FFN) for tail, is_found in enumerate(found) for r, n in np.argwhere(is_found).tolist()}
    assert len(row) == len(expected) > 0
    assert set(zip(row.tolist(), key.tolist(), strict=True)) == expected


def test_coefficients_that_are_too_many_at_once_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As numpy counts them; a bin of the histogram by its edges."""
    monkeypatch.setattr("ingest.recorders.scan.COUNTED", 100 * D_FFN)
    x = np.random.default_rng(2).normal(size=(ROWS, D_FFN)).astype(np.float32)
    batch = batch_of(x, np.arange(ROWS))
    moments, found = torch_scan(batch, no_moments(D_FFN, CPU), None)
    assert len(found()[0]) == 0
    np.testing.assert_allclose(moments.total, x.sum(0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(moments.square, (x.astype(np.float64) ** 2).sum(0), rtol=1e-12)
    assert [moments.low.tolist(), moments.high.tolist(), moments.n_active.tolist()] == [x.min(0).tolist(), x.max(0).tolist(), (x > 0).sum(0).tolist()]
    edges = histogram_edges()
    for b in range(HISTOGRAM_BINS // 2, HISTOGRAM_BINS):
        assert moments.histogram[:, b].tolist() == ((x >= edges[b - 1]) & (x < edges[b])).sum(0).tolist()
    row, key = better_cells(batch, no_triggers(D_FFN, K, CPU), 0, ROWS)
    assert len(set(zip(row.tolist(), key.tolist(), strict=True))) == 2 * x.size
