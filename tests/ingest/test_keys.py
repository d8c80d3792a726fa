"""The sweep's reductions against a sort of everything."""

import os
import subprocess
import sys
from itertools import product

import numpy as np
import polars as pl
import pytest
import torch

from ingest.recorders import torch_keys
from ingest.recorders.ffn_keys import CpuKeys, KeyTriggers
from ingest.recorders.rows import trigger_rows
from ingest.recorders.top_k_kernel import ABSENT, NOWHERE
from ingest.recorders.torch_keys import TorchKeys
from schema.errors import AtlasError
from schema.terms import HISTOGRAM_BINS, PRECEDING, PRECEDING_RANKS, histogram_edges

N_LAYERS, D_FFN, K = 2, 70, 5


def reductions():
    """On the CPU, and by torch on any device."""
    devices = [torch.device("cuda:0" if torch.cuda.is_available() else "cpu")] * N_LAYERS
    return [CpuKeys(N_LAYERS, D_FFN, K), TorchKeys(devices, D_FFN, K)]


def add(keys, layer: int, x: np.ndarray, positions: np.ndarray) -> None:
    """Rows that are one sequence each."""
    keys.batch(positions, np.zeros(len(x), np.int64))(layer, there(keys, torch.from_numpy(x)))


def there(keys, x: torch.Tensor) -> torch.Tensor:
    """Where the reductions are."""
    return x.to(keys.devices[0]) if isinstance(keys, TorchKeys) else x


def coefficients(rows: int, seed: int, ties: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_LAYERS, rows, D_FFN)) * np.exp(3 * rng.normal(size=(N_LAYERS, rows, D_FFN)))
    return (np.maximum(np.round(x), 0) if ties else x).astype(np.float32)


def brute_triggers(x: np.ndarray, positions: np.ndarray) -> dict:
    """(layer, tail, neuron) → [(coefficient, position)] best first, by sorting all rows."""
    found = {}
    for layer in range(N_LAYERS):
        for neuron in range(D_FFN):
            pairs = list(zip(x[layer, :, neuron].tolist(), positions.tolist(), strict=True))
            found[layer, 0, neuron] = sorted(pairs, key=lambda c: (-c[0], c[1]))[:K]
            found[layer, 1, neuron] = sorted(pairs, key=lambda c: (c[0], c[1]))[:K]
    return found


def kept_triggers(keys) -> dict:
    kept = keys.triggers()
    found = {}
    for layer, tail, neuron in np.ndindex(N_LAYERS, 2, D_FFN):
        pairs = zip(kept.coefficients[layer, tail, neuron].tolist(), kept.positions[layer, tail, neuron].tolist(), strict=True)
        sign = -1 if tail == 0 else 1
        found[layer, tail, neuron] = sorted((c for c in pairs if c[1] != NOWHERE), key=lambda c: (sign * c[0], c[1]))
    return found


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_triggers_are_those_of_a_full_sort_whatever_the_batch_order(ties, which, order):
    keys = reductions()[which]
    batches = [coefficients(150, seed, ties) for seed in range(3)]
    for b in order:
        for layer in range(N_LAYERS):
            add(keys, layer, batches[b][layer], np.arange(150 * b, 150 * (b + 1)))
    assert kept_triggers(keys) == brute_triggers(np.concatenate(batches, 1), np.arange(450))


@pytest.mark.parametrize("which", [0, 1])
def test_fewer_positions_than_k_leave_no_filler(which):
    keys = reductions()[which]
    x = coefficients(3, 0, True)
    for layer in range(N_LAYERS):
        add(keys, layer, x[layer], np.arange(3))
    assert kept_triggers(keys) == brute_triggers(x, np.arange(3))


@pytest.mark.parametrize("which", [0, 1])
def test_padded_rows_leave_no_trace(which):
    keys = reductions()[which]
    x = coefficients(200, 1, False)
    positions = np.arange(200)
    positions[::3] = -1
    x[:, ::3] = 1e30
    for layer in range(N_LAYERS):
        add(keys, layer, x[layer], positions)
    real = positions >= 0
    assert kept_triggers(keys) == brute_triggers(x[:, real], positions[real])
    assert keys.statistics().high.max() < 1e29
    assert keys.statistics().histogram.sum(-1).tolist() == np.full((N_LAYERS, D_FFN), real.sum()).tolist()


@pytest.mark.parametrize("which", [0, 1])
def test_statistics_are_those_of_numpy(which):
    keys = reductions()[which]
    x = np.concatenate([coefficients(300, 2, False), np.zeros((N_LAYERS, 1, D_FFN), np.float32)], 1)
    for start in range(0, 301, 100):
        for layer in range(N_LAYERS):
            add(keys, layer, x[layer, start : start + 100], np.arange(start, min(301, start + 100)))
    s = keys.statistics()
    assert s.n_positions == 301
    np.testing.assert_allclose(s.total, x.astype(np.float64).sum(1), rtol=1e-12)
    np.testing.assert_allclose(s.square, (x.astype(np.float64) ** 2).sum(1), rtol=1e-12)
    assert (s.low == x.min(1)).all() and (s.high == x.max(1)).all()
    assert (s.n_active == (x > 0).sum(1)).all()
    edges = np.array(histogram_edges())
    for layer, neuron in [(0, 0), (1, D_FFN - 1)]:
        expected = np.zeros(HISTOGRAM_BINS, int)
        for v in x[layer, :, neuron]:
            bin_ = next(b for b in range(HISTOGRAM_BINS) if (v <= edges[b] if v < 0 else v < edges[b]))
            expected[bin_] += 1
        assert s.histogram[layer, neuron].tolist() == expected.tolist()


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_reduced_in_full(which, dtype):
    """Sums of 3,000 coefficients near 1, of which bfloat16 would lose all after the 256th."""
    keys, x = reductions()[which], (1 + np.random.default_rng(6).normal(size=(3000, D_FFN)) / 8).astype(np.float32)
    for start in range(0, 3000, 1000):
        rows = there(keys, torch.from_numpy(x[start : start + 1000]).to(dtype))
        for layer in range(N_LAYERS):
            keys.batch(np.arange(start, start + 1000), np.zeros(1000, np.int64))(layer, rows)
    rounded = torch.from_numpy(x).to(dtype).double().numpy()
    s = keys.statistics()
    np.testing.assert_allclose(s.total[1], rounded.sum(0), rtol=1e-12)
    np.testing.assert_allclose(s.square[1], (rounded**2).sum(0), rtol=1e-12)
    assert (s.low[1] == rounded.min(0)).all() and (s.high[1] == rounded.max(0)).all()
    assert kept_triggers(keys) == brute_triggers(np.stack([rounded, rounded]), np.arange(3000))


@pytest.mark.parametrize("which", [0, 1])
def test_values_on_an_edge_fall_in_the_bin_the_edges_state(which):
    keys = reductions()[which]
    edges = np.array(histogram_edges()[:-1], np.float32)
    x = np.repeat(edges[:, None], D_FFN, 1)
    for layer in range(N_LAYERS):
        add(keys, layer, x, np.arange(len(x)))
    # a negative edge closes its own bin; zero and positive edges open the next
    expected = np.zeros(HISTOGRAM_BINS, int)
    for b, edge in enumerate(edges):
        expected[b if edge < 0 else b + 1] += 1
    assert keys.statistics().histogram[1, 3].tolist() == expected.tolist()


@pytest.mark.parametrize("which", [0, 1])
def test_a_seeded_reduction_goes_on_where_another_stopped(which):
    first, second = reductions()[which], reductions()[which]
    x = coefficients(400, 3, True)
    for layer in range(N_LAYERS):
        add(first, layer, x[layer, :250], np.arange(250))
    known = first.triggers()
    second.seed(known.coefficients, known.positions)
    for layer in range(N_LAYERS):
        add(second, layer, x[layer, 250:], np.arange(250, 400))
    assert kept_triggers(second) == brute_triggers(x, np.arange(400))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_coefficient_that_is_no_number_stops_the_sweep(which, bad):
    keys = reductions()[which]
    x = coefficients(10, 4, False)[0]
    x[4, 7] = bad

    def sweep() -> None:
        add(keys, 1, x, np.arange(10))
        keys.statistics()

    with pytest.raises(AtlasError, match="L1N7"):
        sweep()


@pytest.mark.thorough
def test_a_sweep_leaves_the_number_of_threads_as_the_user_set_it() -> None:
    """Elsewhere, because only the first parallel loop of a process could change it."""
    code = (
        "import numpy as np, torch; from ingest.recorders.ffn_keys import CpuKeys; keys = CpuKeys(1, 8, 2); "
        "keys.batch(np.arange(4), np.arange(4))(0, torch.ones(4, 8)); print(torch.get_num_threads())"
    )
    for n in ("1", "2"):
        done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"OMP_NUM_THREADS": n}, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == n


def brute_preceding(x: np.ndarray, row: int, index: int) -> list[float]:
    return x[row - min(index, PRECEDING) : row].tolist()


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(("which", "rows"), [(0, 200), (1, 200), (0, 70_000), (1, 70_000)])
def test_a_trigger_keeps_the_coefficients_of_the_tokens_before_it(which, rows):
    """Sequences of 40 and 7 tokens in turn, padded rows between them; of the larger batch the rows are reduced in two parts."""
    keys, rng = reductions()[which], np.random.default_rng(5)
    indices = np.tile(np.concatenate([np.arange(40), np.arange(10)]), rows // 50)
    positions = np.arange(rows)
    positions[np.tile(np.arange(50) >= 47, rows // 50)] = -1
    batches = [rng.normal(size=(rows, D_FFN)).astype(np.float32) for _ in range(2)]
    batches[0][:, 7] = 0
    for b, x in enumerate(batches):
        keys.batch(np.where(positions < 0, -1, positions + b * rows), indices)(1, there(keys, torch.from_numpy(x)))
    kept = keys.triggers()
    for tail, neuron, place in np.ndindex(2, D_FFN, K):
        b, row = divmod(int(kept.positions[1, tail, neuron, place]), rows)
        expected = brute_preceding(batches[b][:, neuron], row, indices[row])
        levels, scale = kept.levels[1, tail, neuron, place], kept.scales[1, tail, neuron, place]
        assert (levels[: PRECEDING - len(expected)] == ABSENT).all()
        found = levels[PRECEDING - len(expected) :].astype(np.float64) * scale
        assert scale == pytest.approx(max(map(abs, expected), default=0) / 127)
        np.testing.assert_allclose(found, expected, atol=scale * 0.5001)


def test_triggers_that_cannot_be_among_the_first_bring_no_coefficients_before_them() -> None:
    keys = CpuKeys(1, 3, 30)
    keys.batch(np.arange(200), np.arange(200))(0, torch.randn(200, 3))
    rows = pl.DataFrame(trigger_rows(keys, 0, 100, 200)).sort("coefficient")
    assert (rows["preceding"].is_null() == rows["preceding_scale"].is_null()).all()
    for neuron, tail in product(range(3), ("max", "min")):
        best = keys.triggers().coefficients[0, int(tail == "min"), neuron]
        first = sorted(best, key=lambda c: -c if tail == "max" else c)[:PRECEDING_RANKS]
        mine = rows.filter(neuron=neuron, tail=tail)
        assert mine["preceding"].is_not_null().to_list() == [c in first for c in mine["coefficient"]]


def test_sums_of_a_batch_do_not_depend_on_what_was_seen_before():
    """To the bit: the same shard is the same whoever computes it, fresh or after a thousand others."""
    x, seen = coefficients(3000, 7, False)[0], coefficients(60, 8, False)
    fresh, seeded = reductions()[1], reductions()[1]
    seeded.seed(np.tile(np.array([1e3, -1e3], np.float32)[:, None, None], (N_LAYERS, 1, D_FFN, K)), np.full((N_LAYERS, 2, D_FFN, K), 10**6) + np.arange(K))
    add(fresh, 0, seen[0], np.arange(60))
    fresh.reset_statistics()
    for keys in (fresh, seeded):
        add(keys, 0, x, np.arange(100, 3100))
    assert fresh.statistics().square[0].tolist() == seeded.statistics().square[0].tolist()
    assert fresh.statistics().total[0].tolist() == seeded.statistics().total[0].tolist()


@pytest.mark.parametrize("which", [0, 1])
def test_padding_may_be_long(which):
    """Two sequences of 40, of which one is of 3: there are parts with no row of either."""
    keys, x = reductions()[which], coefficients(80, 9, False)
    positions = np.where(np.arange(80) < 43, np.arange(80), -1)
    for layer in range(N_LAYERS):
        add(keys, layer, x[layer], positions)
    assert kept_triggers(keys) == brute_triggers(x[:, :43], np.arange(43))
    assert keys.statistics().n_positions == 43


def test_a_reduction_that_is_seeded_with_nothing_looks_through_a_batch_in_parts(monkeypatch):
    """Else every cell of its first batch would be a candidate."""
    keys, largest = reductions()[1], []
    nothing = KeyTriggers(*(np.full((N_LAYERS, 2, D_FFN, K), v, t) for v, t in ((0, np.float32), (NOWHERE, np.int64))), np.empty(0), np.empty(0))
    keys.seed(nothing.coefficients, nothing.positions)
    real = torch_keys.add_cells
    monkeypatch.setattr(torch_keys, "add_cells", lambda layer, batch, cells: largest.append(len(cells[0])) or real(layer, batch, cells))
    x = coefficients(4000, 10, False)
    add(keys, 0, x[0], np.arange(4000))
    assert max(largest) == 2 * 4 * K * D_FFN
    assert sum(largest) < x[0].size / 4
