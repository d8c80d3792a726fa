"""The model of scale on sizes small enough for a pencil, and the document that prints it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.rows import trigger_rows
from ingest.recorders.torch_keys import TorchKeys
from tests.scale import model
from tests.scale.fit import fitted, total
from tests.scale.markdown import count, size, time
from tests.scale.shapes import Shape, Sweep, candidates, harmonic, loaded_rows, published_rows
from tests.scale.synthetic import SampledKeys
from tests.scale.tables import DOCUMENT, TABLES, with_tables

SMALL = Shape("small", n_layers=2, d_ffn=3, d_model=4, d_vocab=100, n_parameters=10**9, n_heads=2, d_head=2, is_gated=False)


def test_rows_of_a_small_shape() -> None:
    sweep = Sweep(n_positions=400, shard_positions=100, n_workers=2, k=5)
    # 6 neurons: 60 tokens and 5 other values each; 4 shards; a worker's first brings 2 tails of 5 triggers, its second half as many
    weights = {"neuron": 6, "value_token": 360, "value_neighbour": 30, "position": 400}
    assert loaded_rows(SMALL, sweep) == {**weights, "neuron_statistics": 24, "trigger": 2 * (60 + 30)}
    assert published_rows(SMALL, sweep) == {**weights, "neuron_statistics": 6, "trigger": 60}


def test_bytes_of_heads_of_a_small_shape() -> None:
    # 4 heads, 6 neurons of 2 sides, one pair of layers
    rows = {
        "head": 4, "head_eigenvalue": 4 * 2 * 4, "head_direction": 4 * 2 * 2, "head_direction_token": 4 * 4 * 2 * 2 * 10,
        "composition": 3 * 4, "virtual_weight": 12 * 10, "virtual_weight_total": 12,
    }  # fmt: skip
    assert model.stored_bytes("circuit", SMALL) == sum(n * model.BYTES_PER_ROW[table] for table, n in rows.items())
    assert model.stored_bytes("attribution", SMALL) == sum(
        n * model.BYTES_PER_ROW[table]
        for table, n in {"attribution": 2, "contribution": 4 + 6 * 2, "neuron_contribution": 6, "attention": 8 * 4, "head_activity": 4}.items()
    )


def test_bytes_of_reading_of_a_small_shape() -> None:
    # the head is 400 of the parameters
    assert model.head_share(SMALL) == pytest.approx(400 / (10**9 - 400))
    assert model.head_share(replace(SMALL, is_tied=False)) == pytest.approx(400 / (10**9 - 800))
    assert model.logits_bytes(SMALL) == 512 * 100 * 4
    # float16: of 10 positions, and of 10 words the embedding and what leaves both layers in two models
    assert (model.keys_bytes(SMALL, 10), model.probed_bytes(SMALL, 10), model.weights_bytes(SMALL)) == (80, 2 * 3 * 80, 2 * 10**9)


def test_workers_without_a_shard_bring_nothing() -> None:
    # 3 shards and 5 workers: three bring a first shard
    assert candidates(SMALL, Sweep(300, 100, 5), 5) == 3 * 60


def test_a_worker_may_have_one_shard_more() -> None:
    # 5 shards and 2 workers: 60 · (1 + 1/2 + 1/3) and 60 · (1 + 1/2)
    assert candidates(SMALL, Sweep(500, 100, 2), 5) == pytest.approx(110 + 90)


def test_harmonic_numbers() -> None:
    assert harmonic(4) == pytest.approx(25 / 12)
    assert harmonic(1000) == pytest.approx(harmonic(999) + 1 / 1000, rel=1e-13)


def test_a_real_reduction_brings_as_many_triggers_as_the_model_says() -> None:
    rng, shape, n, k = np.random.default_rng(0), Shape("", 1, 512, 4, 100, 1, 1, 4, False), 256, 10
    keys = CpuKeys(1, 512, k)
    brought = []
    for first in range(0, 4 * n, n):
        x = torch.from_numpy(rng.standard_normal((n, 512), np.float32))
        keys.batch(np.arange(first, first + n), np.arange(n))(0, x)
        brought.append(trigger_rows(keys, 0, first, first + n).num_rows)
    # 2 tails of 512 keys: 10,240 triggers, a half, a third and a quarter of them
    assert brought == pytest.approx([10240, 5120, 10240 / 3, 2560], rel=0.03)
    assert sum(brought) == pytest.approx(candidates(shape, Sweep(4 * n, n, 1, k), k), rel=0.02)


def test_sampled_triggers_follow_their_law() -> None:
    keys = SampledKeys(Shape("", 2, 512, 4, 100, 1, 1, 4, False), 8, np.random.default_rng(0))
    keys.read(1024, 1024)
    kept = keys.triggers()
    largest = (np.abs(kept.coefficients) / keys.width[:, None, :, None]).max(-1)
    # the largest of n exponential numbers is 1 + 1/2 + … + 1/n on average, 7.5092 for 1024; a Laplace law's tail is one of ln 2 less
    assert largest.mean() == pytest.approx(7.5092 - 0.6931, rel=0.02)
    assert kept.positions.min() >= 1024
    assert kept.positions.max() < 2048
    assert np.diff(np.sort(kept.positions, axis=-1), axis=-1).min() > 0
    assert (keys.statistics().histogram.sum(-1) == 1024).all()


def test_the_k_best_of_k_are_all_of_them() -> None:
    keys = SampledKeys(Shape("", 2, 512, 4, 100, 1, 1, 4, False), 8, np.random.default_rng(0))
    keys.read(0, 8)
    found = np.abs(keys.triggers().coefficients / keys.width[:, None, :, None])
    signed = np.where(np.sign(keys.triggers().coefficients) == np.array([1, -1])[:, None, None], found, -found)
    # exponential numbers less ln 2, 1 on average without that
    assert signed.mean() == pytest.approx(1 - 0.6931, abs=0.03)


def test_memory_of_the_reductions_is_that_of_their_arrays() -> None:
    keys = TorchKeys([torch.device("cpu")] * 2, 3, 5)
    tensors = [t for layer in keys.layers for t in (*layer.moments, *layer.triggers)]
    assert model.reduction_bytes(SMALL, 5) == sum(t.numel() * t.element_size() for t in tensors)


def test_the_slower_of_workers_and_driver_sets_the_pace() -> None:
    ten = Sweep(1000, 100, 5)
    # 2 rounds of 4 s and a wait of 0.1 s; or 10 times 1 s, and 4 s for the last shard
    assert model.sweep_seconds(ten, worker=4, driver=0.1) == pytest.approx(8.2)
    assert model.sweep_seconds(ten, worker=4, driver=1) == pytest.approx(14)


def test_tokens_a_second_are_the_assumed_flops() -> None:
    # 989e12 · 0.4 / (2 · 1e9)
    assert model.tokens_per_second(SMALL) == pytest.approx(197_800)


def test_the_fit_finds_the_costs_that_made_the_wholes() -> None:
    costs = {"a": 2.0, "b": 0.5, "c": 1e-6}
    units = [{"a": 1, "b": n, "c": 1e6 * m} for n, m in ((1, 1), (10, 2), (100, 30), (3, 400))]
    assert fitted(units, [total(u, costs) for u in units]) == pytest.approx(costs)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [(time(5400), "1.5 h"), (time(0.04), "0.0 s"), (time(86400 * 730), "2.0 years"), (size(36e12), "36 TB"), (count(1e8), "100 M"), (count(7), "7.0")],
)
def test_numbers_are_shown_in_a_fitting_unit(shown: str, expected: str) -> None:
    assert shown == expected


def test_the_documents_tables_are_what_the_model_gives() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in TABLES if f"<!-- table {name} -->" not in text] == []
    assert with_tables(text) == text
