"""Memory that runs out: a batch is read in parts, and what is kept of it is kept once."""

import weakref
from contextlib import closing
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from ingest import run as driver
from ingest.model.device import in_parts, usual_batch
from ingest.model.models import Model
from ingest.recorders import scan, torch_keys
from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.removal import read_ends
from ingest.recorders.torch_keys import TorchKeys
from ingest.text.sequences import Sequence
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.tiny import Tiny, make, run
from tests.ingest.reading import sweep_batch, trace_batch
from tests.ingest.tiny_models import tiny_model

torch.set_num_threads(1)

N_LAYERS, K = 4, 6


def model_with_room(n_sequences: int, layer: int) -> tuple[Model, list[int]]:
    """A model whose memory ends at a layer's down projection when more sequences come there; and the number of sequences of each pass that did."""
    model, came = tiny_model("llama", num_hidden_layers=N_LAYERS), []
    add_limit(model, n_sequences, layer, came)
    return model, came


def add_limit(model: Model, n_sequences: int, layer: int, came: list[int]) -> None:
    def limit(_module: object, args: tuple[torch.Tensor]) -> None:
        came.append(len(args[0]))
        if len(args[0]) > n_sequences:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    model.layer_module(layer, model.architecture.ffn.down).register_forward_pre_hook(limit)


def sequences(lengths: list[int]) -> tuple[Sequence, ...]:
    generator, starts = np.random.default_rng(0), np.cumsum([0, *lengths])
    tokens = [generator.integers(1, 250, n).astype(np.int32) for n in lengths]
    return tuple(Sequence(100 + i, 0, int(start), t, t, t, t) for i, (start, t) in enumerate(zip(starts, tokens, strict=False)))


LENGTHS = [9, 8, 8, 6, 5, 5, 3]


def read_alone(batch: tuple[Sequence, ...]) -> np.ndarray:
    """Coefficients of every position of an undisturbed model, by a hook of its own and a pass for each sequence: [n_layers, positions, d_ffn]."""
    model, found = tiny_model("llama", num_hidden_layers=N_LAYERS), []
    for layer in model.hf.model.layers:
        layer.mlp.down_proj.register_forward_pre_hook(lambda _, args: found.append(args[0][0].numpy()))
    with torch.inference_mode():
        for s in batch:
            model.hf(torch.from_numpy(s.token_ids.astype(np.int64))[None])
    return np.stack([np.concatenate(found[layer::N_LAYERS]) for layer in range(N_LAYERS)])


def reductions(which: type, model: Model) -> CpuKeys | TorchKeys:
    return CpuKeys(N_LAYERS, model.d_ffn, K) if which is CpuKeys else TorchKeys([torch.device("cpu")] * N_LAYERS, model.d_ffn, K)


def check(keys: CpuKeys | TorchKeys, batch: tuple[Sequence, ...]) -> None:
    """Every position once, in every reduction."""
    expected, n = read_alone(batch), sum(LENGTHS)
    found, kept = keys.statistics(), keys.triggers()
    assert found.n_positions == n
    assert (found.histogram.sum(-1) == n).all()
    np.testing.assert_allclose(found.total, expected.astype(np.float64).sum(1), atol=1e-4)
    np.testing.assert_allclose(found.square, (expected.astype(np.float64) ** 2).sum(1), rtol=1e-4)
    assert (found.n_active == (expected > 0).sum(1)).all()
    for tail, sign in enumerate((1, -1)):
        order = np.argsort(-sign * expected, axis=1, kind="stable")[:, :K].transpose(0, 2, 1)
        assert (np.sort(kept.positions[:, tail], -1) == np.sort(order, -1)).all()


@pytest.mark.parametrize("which", [CpuKeys, TorchKeys])
@pytest.mark.parametrize("layer", [0, 2, N_LAYERS - 1])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_batch_that_does_not_fit_is_counted_once(which: type, layer: int, most: int) -> None:
    (model, came), batch, done = model_with_room(most, layer), sequences(LENGTHS), []
    keys = reductions(which, model)
    sweep_batch(model, keys, batch, done.append)
    check(keys, batch)
    assert sum(done) == sum(LENGTHS)
    assert came[0] == len(LENGTHS) and sum(n for n in came if n <= most) == len(LENGTHS)


@pytest.mark.parametrize(
    ("module", "failing", "call", "is_late"),
    [
        (scan, "count_bins", 2, False),
        (torch_keys, "merge_candidates", 5, False),
        (torch_keys, "preceding_levels", 6, False),
        (torch_keys, "preceding_levels", 2, True),
    ],
)
def test_memory_may_run_out_within_the_reductions(module: ModuleType, failing: str, call: int, is_late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the histogram of layer 1; in the first and the last of three parts of layers 2 and 1; where much was seen before, in layer 1 when layer 2 comes."""
    (model, _), batch, calls, real = model_with_room(99, 0), sequences(LENGTHS), [], getattr(module, failing)
    keys = reductions(TorchKeys, model)
    if is_late:
        worst = np.full((N_LAYERS, 2, model.d_ffn, K), 1e30, np.float32) * np.array([-1, 1], np.float32)[:, None, None]
        keys.seed(worst, np.full(worst.shape, 10**6) + np.arange(K))

    def once(*args: object) -> object:
        calls.append(None)
        if len(calls) == call:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return real(*args)

    monkeypatch.setattr(module, failing, once)
    sweep_batch(model, keys, batch, lambda _: None)
    assert len(calls) > call
    check(keys, batch)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("which", [CpuKeys, TorchKeys])
def test_a_half_precision_forward_pass_is_reduced_in_full(which: type, dtype: torch.dtype) -> None:
    """One sequence: in a batch with others its half-precision coefficients would be rounded otherwise."""
    model, batch, found = tiny_model("llama", dtype=dtype, num_hidden_layers=N_LAYERS), sequences([60]), []
    for layer in model.hf.model.layers:
        layer.mlp.down_proj.register_forward_pre_hook(lambda _, args: found.append(args[0][0].double().numpy()))
    keys = reductions(which, model)
    sweep_batch(model, keys, batch, lambda _: None)
    assert model.hf.dtype == dtype
    np.testing.assert_allclose(keys.statistics().total, np.stack(found).sum(1), rtol=1e-9)
    assert (keys.triggers().coefficients[:, 0].max(-1) == np.stack(found).max(1)).all()


@pytest.mark.thorough
def test_no_later_batch_is_larger_than_what_fitted() -> None:
    (model, came), keys = model_with_room(2, 1), None
    keys = reductions(CpuKeys, model)
    sweep_batch(model, keys, sequences([5] * 8), lambda _: None)
    assert came == [8, 4, 2, 2, 2, 2]
    came.clear()
    sweep_batch(model, keys, sequences([5] * 7), lambda _: None)
    assert max(came) == 2 and sum(came) == 7
    came.clear()
    sweep_batch(model, keys, sequences([2] * 5), lambda _: None)
    assert came[0] == 5, "shorter sequences take less"


def test_the_trace_brings_every_sampled_position_once() -> None:
    (model, _), batch = model_with_room(2, 1), sequences(LENGTHS)
    sample = np.array([0, 4, 9, 20, 26, 30, 37, 43])
    parts = list(trace_batch(model, batch, sample))
    assert len(parts) > 1
    assert np.concatenate([p.position_ids for p in parts]).tolist() == sample.tolist()
    coefficients = torch.cat([p.coefficients for p in parts], 1).numpy()
    np.testing.assert_allclose(coefficients, read_alone(batch)[:, sample], atol=1e-5)


def test_texts_read_again_are_read_in_parts() -> None:
    (model, came), batch = model_with_room(2, 1), sequences([5, 5, 4, 4, 4])
    expected, ends, shares = read_alone(batch)[1], np.cumsum([5, 5, 4, 4, 4]) - 1, []
    found = read_ends(model, 1, {tuple(s.token_ids.tolist()) for s in batch}, [3, 1], 1000, shares.append)
    for s, end in zip(batch, ends, strict=True):
        np.testing.assert_allclose(found[tuple(s.token_ids.tolist())], expected[end, [3, 1]], atol=1e-5)
    assert sum(shares) == pytest.approx(1) and max(came[1:]) < 5


def test_one_sequence_that_does_not_fit_is_said() -> None:
    model, _ = model_with_room(0, 1)
    with pytest.raises(
        AtlasError, match=r"model tiny-llama: beside the model, cpu has no room for one sequence of 8 tokens; use a smaller --context, --dtype bfloat16"
    ):
        sweep_batch(model, reductions(CpuKeys, model), sequences([8, 3]), lambda _: None)


def test_what_a_pass_held_is_let_go_of_before_the_next_is_tried() -> None:
    model, held = tiny_model("llama"), []

    def read(part: tuple[int, ...]) -> int:
        assert all(state() is None for state in held)
        state = torch.zeros(len(part))
        held.append(weakref.ref(state))
        if len(part) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return part[0]

    assert list(in_parts(model, (3, 1, 2), int, read)) == [3, 1, 2]
    assert len(held) == 5


def test_a_gpu_gets_as_many_tokens_whatever_the_context() -> None:
    assert [usual_batch("cpu", 256), usual_batch("cuda", 256), usual_batch("cuda", 2048), usual_batch("cuda", 40000)] == [8, 128, 16, 1]


def content(target: Path) -> tuple[dict[str, int], dict[str, np.ndarray], list]:
    """Rows of every table, statistics in order, and the positions traced."""
    with closing(open_reader(target)) as con:
        tables = [t for (t,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE table_name NOT IN ('run', 'shard')").fetchall()]
        rows = {t: con.execute(f"SELECT count(*) FROM {t}").fetchall()[0][0] for t in tables}
        statistics = con.execute("SELECT n_positions, n_active, mean, histogram FROM neuron_statistics ORDER BY layer, neuron").fetchnumpy()
        return rows, statistics, con.execute("SELECT position_id FROM trace ORDER BY position_id").fetchall()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("gpt2"), "gpt2")


@pytest.mark.thorough
def test_an_ingest_that_runs_out_of_memory_makes_the_atlas_of_one_that_does_not(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, came = driver.load_model, []

    def limited(*args: object, **options: object) -> Model:
        model = load(*args, **options)
        add_limit(model, 2, 1, came)
        return model

    undisturbed = run(tiny.request(tmp_path / "a.duckdb", batch_size=16))
    monkeypatch.setattr(driver, "load_model", limited)
    disturbed = run(tiny.request(tmp_path / "b.duckdb", batch_size=16))
    assert max(came) > 2
    (rows, found, traced), (other_rows, expected, other_traced) = content(disturbed), content(undisturbed)
    assert rows == other_rows and traced == other_traced
    assert set(found["n_positions"]) == {rows["position"]}
    np.testing.assert_allclose(found["mean"], expected["mean"], atol=1e-5)
    assert (found["n_active"] == expected["n_active"]).all()
    assert (np.stack(found["histogram"]).sum(1) == rows["position"]).all()


def test_memory_that_no_smaller_batch_saves_ends_in_one_line(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7.50 GiB.\nmore")

    monkeypatch.setattr("ingest.recorders.values.all_unit_values", full)
    with pytest.raises(AtlasError, match=r"device 'cpu' is out of memory: CUDA out of memory. Tried to allocate 7.50 GiB. Use --dtype bfloat16, more GPUs"):
        run(tiny.request(tmp_path / "a.duckdb"))
