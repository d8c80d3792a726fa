"""The kernel for NVIDIA GPUs where there is none: run by numba's simulator (as in test_keys.py), and compiled by NVIDIA's compiler."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from ingest.recorders import cuda_scan
from ingest.recorders.cuda_kernel import RUN
from ingest.recorders.scan import Batch, Triggers, better_cells
from ingest.recorders.torch_keys import no_moments, no_triggers
from schema.terms import HISTOGRAM_BINS, histogram_edges

D_FFN, ROWS = 130, 2 * RUN + 7


def batch_of(x: np.ndarray, positions: np.ndarray) -> Batch:
    return Batch(torch.from_numpy(x), torch.from_numpy(positions), torch.from_numpy(np.arange(len(x))), bool((positions < 0).any()))


def gated(k: int, high: np.ndarray, low: np.ndarray, position: int) -> Triggers:
    """Triggers whose k-th best of each neuron are given, at one position."""
    triggers = no_triggers(D_FFN, k, torch.device("cpu"))
    triggers.best[:] = torch.from_numpy(np.concatenate([high, -low]).astype(np.float32))[:, None]
    triggers.positions[:] = position
    return triggers


def test_the_cells_found_are_those_that_beat_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded, so that there are ties: positions fall from row to row, and of a tie the smaller one wins. Every eleventh row is padding."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(ROWS, D_FFN)) * 8).astype(np.float32) / 8
    positions = np.arange(ROWS)[::-1] * 3
    positions = np.where(np.arange(ROWS) % 11 == 5, -1, positions).astype(np.int64)
    high, low = rng.integers(16, 24, D_FFN) / 8, -rng.integers(16, 24, D_FFN) / 8
    monkeypatch.setattr(cuda_scan, "better_cells", None)
    _, found = cuda_scan.cuda_scan(batch_of(x, positions), no_moments(D_FFN, torch.device("cpu")), gated(64, high, low, ROWS))
    row, key = found()
    expected = set()
    for r in range(ROWS):
        for n in range(D_FFN):
            v, early = x[r, n], positions[r] < ROWS
            if positions[r] >= 0 and (v > high[n] or (v == high[n] and early)):
                expected.add((r, n))
            if positions[r] >= 0 and (v < low[n] or (v == low[n] and early)):
                expected.add((r, D_FFN + n))
    assert len(row) == len(expected) > 0
    assert set(zip(row.tolist(), key.tolist(), strict=True)) == expected


def test_moments_of_several_blocks_and_runs() -> None:
    """As numpy has them; a bin of the histogram is counted by its edges."""
    x = np.random.default_rng(2).normal(size=(ROWS, D_FFN)).astype(np.float32)
    moments, found = cuda_scan.cuda_scan(batch_of(x, np.arange(ROWS)), no_moments(D_FFN, torch.device("cpu")), None)
    assert len(found()[0]) == 0
    np.testing.assert_allclose(moments.total, x.sum(0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(moments.square, (x.astype(np.float64) ** 2).sum(0), rtol=1e-12)
    assert [moments.low.tolist(), moments.high.tolist()] == [x.min(0).tolist(), x.max(0).tolist()]
    assert moments.n_active.tolist() == (x > 0).sum(0).tolist()
    edges = histogram_edges()
    for b in range(HISTOGRAM_BINS // 2, HISTOGRAM_BINS):
        assert moments.histogram[:, b].tolist() == ((x >= edges[b - 1]) & (x < edges[b])).sum(0).tolist()
    assert moments.histogram.sum(1).tolist() == [ROWS] * D_FFN


def test_a_list_that_is_full_is_left_for_torch() -> None:
    x = np.random.default_rng(1).normal(size=(40, D_FFN)).astype(np.float32)
    batch, triggers = batch_of(x, np.arange(40)), no_triggers(D_FFN, 3, torch.device("cpu"))
    row, key = cuda_scan.cuda_scan(batch, no_moments(D_FFN, torch.device("cpu")), triggers)[1]()
    assert len(row) == 2 * x.size
    assert [t.tolist() for t in (row, key)] == [t.tolist() for t in better_cells(batch, triggers, 0, 40)]


COMPILE = """
import types
from itertools import product
import numba.cuda.dispatcher
from numba.cuda import compile_ptx
from numba.types import Array, float32, float64, int32, int64, uint16
from ingest.recorders.cuda_kernel import scan_kernel

numba.cuda.dispatcher.get_current_device = lambda: types.SimpleNamespace(compute_capability={capability})


def array(dtype, ndim):
    return Array(dtype, ndim, "C")


for (is_bfloat16, dtype), is_padded in product([(True, uint16), (False, float32)], [True, False]):
    read = (array(dtype, 2), array(int64, 1), array(float32, 2), array(int64, 2))
    written = [array(dtype, 2) for dtype in (float64, float64, float32, float32, int32, int32)] + [array(int32, 1)] * 3
    print(compile_ptx(scan_kernel(is_bfloat16, is_padded).py_func, (*read, *written), cc={capability})[0])
"""
"""The compiler asks for the GPU's capability, and is given one."""


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_the_kernel_compiles_and_keeps_its_rows_in_registers(capability: tuple[int, int]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run([sys.executable, "-c", COMPILE.format(capability=capability)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\.visible \.entry", done.stdout, re.MULTILINE)) == 4
    assert f"sm_{capability[0]}{capability[1]}" in done.stdout
    assert ".local" not in done.stdout, "what is read at once lies in memory"
    assert done.stdout.count(".shared .align") == 4


def test_where_the_kernel_does_not_run_torch_does_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU would be asked, with the simulator for it: both variants of both kinds run; then none is installed, or its compiler fails."""
    can_scan, cpu = cuda_scan.can_scan.__wrapped__, torch.device("cpu")
    assert not can_scan(cpu), "torch was built without CUDA"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    assert can_scan(cpu)

    def fail(*_: bool) -> None:
        raise RuntimeError("no libnvvm\nanywhere")

    with monkeypatch.context() as patched:
        patched.setattr(cuda_scan, "kernel", fail)
        with pytest.warns(UserWarning, match="numba-cuda does not work here .no libnvvm anywhere.: torch's operations"):
            assert not can_scan(cpu)
    monkeypatch.setattr(cuda_scan, "find_spec", lambda name: None)
    assert not can_scan(cpu)
