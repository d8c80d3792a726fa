"""A model whose layers lie on several devices is recorded as one that lies on the CPU."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from accelerate import cpu_offload

from ingest import run as driver
from ingest.model.architectures import ARCHITECTURES
from ingest.model.checks import check_identities
from ingest.model.device import USUAL_SEQUENCES
from ingest.model.embedding import position_rows, token_rows
from ingest.model.heads import head_outputs, pattern
from ingest.model.loading import load_hf, require_room
from ingest.model.models import Model, wrap
from ingest.model.sources import folder_source
from ingest.recorders.torch_keys import TorchKeys, new_keys
from ingest.recorders.traces import TraceSettings, join_states, trace_tables
from ingest.recorders.values import all_unit_values, weight_tables
from ingest.refusals import check_workers
from ingest.text.sequences import Sequence
from ingest.workers.pool import LocalPool
from ingest.workers.worker import Worker
from schema.errors import AtlasError
from schema.terms import SITES
from tests.exact.published import Published
from tests.exact.tiny import Tiny, make, run
from tests.ingest.devices import FIRST, SECOND, made_up_devices, spread
from tests.ingest.reading import sweep_batch, trace_batch
from tests.ingest.tiny_models import FAMILIES, marked, tiny_hf, tiny_model, tiny_tokenizer

torch.set_num_threads(1)


def on_two_devices(model_type: str) -> Model:
    """Layer 0 and the embedding on the first; layer 1, the final norm and, if it is not the embedding, the head on the second."""
    hf = tiny_hf(model_type)
    tied = hf.get_output_embeddings().weight is hf.get_input_embeddings().weight
    names = {id(module): name for name, module in hf.named_modules()}
    second = [".1", "norm", "ln_f"] + ([] if tied else [names[id(hf.get_output_embeddings())]])

    def where(name: str) -> torch.device:
        last = any(f"{name}.".find(f"{part}.") >= 0 and ".0." not in f"{name}." for part in second)
        return SECOND if last else FIRST

    return wrap(spread(hf, where), tiny_tokenizer(), f"tiny-{model_type}")


def batch() -> tuple[Sequence, ...]:
    tokens = [np.random.default_rng(i).integers(1, 250, n).astype(np.int32) for i, n in enumerate((7, 6, 4))]
    return tuple(Sequence(i, 0, 10 * i, t, t, t, t) for i, t in enumerate(tokens))


def same(found: dict[str, pa.Table], expected: dict[str, pa.Table]) -> None:
    """To the rounding of parts that a processor computes in one step."""
    assert found.keys() == expected.keys()
    for name, table in found.items():
        for column in table.column_names:
            one, other = (np.array(t[column].to_pylist()) for t in (table, expected[name]))
            if one.dtype.kind == "f":
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=f"{name}.{column}")
            else:
                assert (one == other).all(), f"{name}.{column}"


# GPT-Neo's code makes tensors where made-up devices do not see it
@pytest.mark.parametrize("model_type", marked(name for name in ARCHITECTURES if name != "gpt_neo"))
def test_layers_on_two_devices(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # which made-up tensors do not know
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)
    one, sample, settings = tiny_model(model_type), np.array([3, 12, 15, 21]), TraceSettings(SITES, 5, 0)
    with made_up_devices():
        two = on_two_devices(model_type)
        assert two.place == f"{FIRST}, {SECOND}"
        check_identities(two)
        keys = new_keys(two, 4)
        sweep_batch(two, keys, batch(), lambda _: None)
        found, best = keys.statistics(), keys.triggers()
        weights = weight_tables(two, 1, all_unit_values(two))
        states = join_states(trace_batch(two, batch(), sample))
        traced = trace_tables(two, states, np.zeros((2, two.d_ffn), np.int64), 0, settings, lambda _: None)
    expected_keys = TorchKeys([torch.device("cpu")] * 2, one.d_ffn, 4)
    sweep_batch(one, expected_keys, batch(), lambda _: None)
    expected = expected_keys.statistics()
    np.testing.assert_allclose(found.total, expected.total, atol=1e-5)
    assert found.n_positions == expected.n_positions == 17
    assert (best.positions == expected_keys.triggers().positions).all()
    same(weights, weight_tables(one, 1, all_unit_values(one)))
    same(traced, trace_tables(one, join_states(trace_batch(one, batch(), sample)), np.zeros((2, one.d_ffn), np.int64), 0, settings, lambda _: None))


@pytest.mark.parametrize("model_type", FAMILIES)
def test_heads_of_a_layer_elsewhere(model_type: str) -> None:
    """Rebuilt where the output head is, from a state that comes from where the layer is."""
    one, resid_pre, tokens = tiny_model(model_type), torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(0)), torch.arange(6)
    expected = pattern(one, 0, resid_pre)
    outputs = head_outputs(one, 0, resid_pre, expected)
    with made_up_devices():
        two = on_two_devices(model_type)
        found = pattern(two, 0, resid_pre.to(FIRST))
        assert two.layer_device(0) == FIRST and found.device == two.device
        torch.testing.assert_close(found.to("cpu"), expected)
        torch.testing.assert_close(head_outputs(two, 0, resid_pre.to(FIRST), found).to("cpu"), outputs)
        torch.testing.assert_close((token_rows(two, tokens) + position_rows(two, 6)).to("cpu"), token_rows(one, tokens) + position_rows(one, 6))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("llama"), "llama")


@pytest.mark.thorough
def test_auto_without_a_gpu_makes_the_atlas_of_the_cpu(tiny: Tiny, tmp_path: Path) -> None:
    """In batches of as many sequences as the processors take."""
    asked = {"auto": 0, "cpu": USUAL_SEQUENCES}
    auto, cpu = (Published(run(tiny.request(tmp_path / f"{device}.duckdb", device=device, batch_size=n))) for device, n in asked.items())
    assert auto.checksums() == cpu.checksums()
    assert auto.rows("SELECT DISTINCT device FROM run") == [("cpu",)]


@pytest.mark.parametrize("model_type", FAMILIES)
def test_every_family_can_be_spread(model_type: str, tmp_path: Path) -> None:
    """Transformers knows which of its modules may not be torn apart."""
    tiny_hf(model_type).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert wrap(load_hf(folder_source(tmp_path), torch.float32, "auto"), tiny_tokenizer(), "tiny").n_layers == 2


def test_weights_for_which_no_gpu_has_room_are_refused(tmp_path: Path) -> None:
    """As accelerate leaves them: on the device meta, to be fetched for each layer."""
    hf = tiny_hf("gpt2")
    block = hf.transformer.h[1]
    n_left = sum(p.numel() for p in block.parameters())
    cpu_offload(block)
    with pytest.raises(AtlasError, match=f"model big: the GPUs have no room for {n_left / hf.num_parameters():.0%} of its weights"):
        require_room(hf, "big")


@pytest.mark.parametrize(
    ("device", "workers", "n_gpus", "said"),
    [
        ("cuda:1", 2, 4, "--device cuda:1 is for one worker alone"),
        ("spread", 2, 4, "--device spread is for one worker alone"),
        ("cuda", 3, 2, "--workers 3 with --device cuda needs one GPU per worker, and torch .* sees 2"),
    ],
)
def test_workers_that_have_no_gpu_each_are_refused(tiny: Tiny, tmp_path: Path, device: str, workers: int, n_gpus: int, said: str) -> None:
    with pytest.raises(AtlasError, match=said):
        check_workers(tiny.request(tmp_path / "a.duckdb", device=device, workers=workers), n_gpus)
    assert check_workers(tiny.request(tmp_path / "a.duckdb", device="cuda", workers=2), 2) is None


@pytest.mark.thorough
def test_the_driver_of_several_workers_leaves_the_gpus_to_them(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool stands in for workers with GPUs; the driver's model is on the CPU, and the runs say where their shards were computed."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "made up")
    monkeypatch.setattr(driver, "pool_for", lambda request, model, staging, work: nullcontext(LocalPool(Worker(model), staging, ahead=False)))
    loaded, real = [], driver.load_model
    monkeypatch.setattr(driver, "load_model", lambda *args, **options: loaded.append(options["device"]) or real(*args, **options))
    target = run(tiny.request(tmp_path / "a.duckdb", device="cuda", workers=2))
    assert loaded == ["cpu"]
    assert Published(target).rows("SELECT DISTINCT device FROM run") == [("cuda",)]
