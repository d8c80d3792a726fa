"""Where a model is computed when nobody says: on a GPU that has room for it. And why torch sees none, in one line."""

import sys
from contextlib import closing
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner
from transformers import PreTrainedModel

from ingest import timing
from ingest.cli import ingest
from ingest.experiments.cli import COMMANDS
from ingest.live_cli import live
from ingest.model import gpus, models
from ingest.model.gpus import SPREAD, Choice, choose_device, driver_version, free_memory, gpu_facts, no_gpu
from ingest.model.loading import checked_device, n_weight_bytes
from ingest.model.models import load_model, wrap
from ingest.model.sources import Source, folder_source
from ingest.placing import computation_facts, place_workers, size_batches
from ingest.request import Request
from ingest.store import register
from ingest.suite_cli import test as suite_command
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.tiny import asked
from tests.ingest.tiny_models import tiny_hf, tiny_model, tiny_tokenizer

GB = 10**9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model, as it lies on a disk."""
    tiny_hf("llama").save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def machine(monkeypatch: pytest.MonkeyPatch, *, cuda: str | None = "13.0", driver: str | None = "580.95.05", n_gpus: int = 0) -> None:
    """As if this torch and this machine were such."""
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(gpus, "driver_version", lambda: driver)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"NVIDIA {device}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("cuda", "driver", "visible", "said"),
    [
        (None, "580.95.05", None, "it is a build without CUDA; install another build .docs/ingest.md: torch and your GPU.$"),
        ("13.0", None, None, "this machine has no NVIDIA driver; install NVIDIA's driver"),
        (
            "13.0",
            "570.86.15",
            None,
            "it is built for CUDA 13.0, which needs driver 580 or newer, and the driver here is 570.86.15; update the driver, or",
        ),
        ("12.8", "520.61", None, "needs driver 525 or newer"),
        ("12.8", "570.86.15", "", "CUDA_VISIBLE_DEVICES is ''; set it to a GPU's number, or unset it$"),
        ("13.0", "580.95.05", None, "driver 580.95.05 is installed, and CUDA reports: no such device; see whether `nvidia-smi`"),
    ],
)
def test_a_gpu_that_is_not_seen_is_explained(cuda: str, driver: str, visible: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise RuntimeError("no such device\nat line 7")

    machine(monkeypatch, cuda=cuda, driver=driver)
    monkeypatch.setattr(torch.cuda, "init", init)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for device in ("cuda", "cuda:1", SPREAD):
        with pytest.raises(AtlasError, match=f"^device '{device}' was asked for, but torch .* sees 0 GPUs: .*{said}") as refused:
            checked_device(device)
        assert "\n" not in str(refused.value)


def test_a_gpu_that_is_not_among_those_seen_needs_no_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, n_gpus=1)
    with pytest.raises(AtlasError, match="sees 1 GPU$"):
        checked_device("cuda:1")
    assert [checked_device("cuda:0"), checked_device(SPREAD)] == [torch.device("cuda:0"), None]


def test_the_driver_is_asked_for_where_it_says_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /proc, else by its own program; neither is in every container."""
    monkeypatch.setattr(gpus, "KERNEL_MODULE", tmp_path / "version")
    monkeypatch.setattr(gpus, "SMI", [str(tmp_path / "no-such-program")])
    assert driver_version() is None
    monkeypatch.setattr(gpus, "SMI", [sys.executable, "-c", "print('580.95.05\\n580.95.05')"])
    assert driver_version() == "580.95.05"
    monkeypatch.setattr(gpus, "SMI", [sys.executable, "-c", "print('No devices were found')"])
    assert driver_version() is None
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: gcc 12.2.0\n")
    assert driver_version() == "570.86.15"


@pytest.mark.parametrize(
    ("free", "n_bytes", "device", "said"),
    [
        ({0: 20 * GB, 1: 24 * GB}, 16 * GB, "cuda:1", "^computing on cuda:1, NVIDIA 1$"),
        ({0: 20 * GB, 1: 24 * GB}, 30 * GB, SPREAD, "^computing on 2 GPUs, with the layers spread over them: weights of 30.0 GB"),
        ({0: 24 * GB}, 32 * GB, "cpu", "^computing on the processors: the model has 32.0 GB of weights, and GPUs have 24.0 GB free, .*--dtype bfloat16"),
    ],
)
def test_the_gpu_that_has_room_is_taken(free: dict[int, int], n_bytes: int, device: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, n_gpus=len(free))
    monkeypatch.setattr(gpus, "free_memory", lambda: (free, ""))
    found = choose_device(lambda: n_bytes)
    assert found.name == device
    with pytest.raises(AtlasError, match=said):
        raise AtlasError(found.why)


def test_without_a_gpu_the_processors_are_taken_and_the_weights_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, cuda=None)
    found = choose_device(lambda: pytest.fail("the weights were counted"))
    assert found == Choice("cpu", f"computing on the processors: torch {torch.__version__} sees no GPU that it can use, since it is a build without CUDA")


def test_a_gpu_that_does_not_compute_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one for which torch was not built: it is seen, and its first operation fails."""

    def zeros(*_: object, **given: object) -> None:
        raise RuntimeError(f"no kernel image is available for {given['device']}\nmore")

    machine(monkeypatch, n_gpus=1)
    monkeypatch.setattr(torch, "zeros", zeros)
    assert free_memory() == ({}, "cuda:0 cannot compute with it: no kernel image is available for cuda:0")
    assert choose_device(lambda: 0).why.endswith("since cuda:0 cannot compute with it: no kernel image is available for cuda:0")


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.bfloat16, 2)])
@pytest.mark.parametrize("is_tied", [False, True])
def test_weights_are_counted_from_the_configuration(dtype: torch.dtype, size: int, is_tied: bool, tmp_path: Path) -> None:
    hf = tiny_hf("llama", tie_word_embeddings=is_tied)
    hf.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert n_weight_bytes(folder_source(tmp_path), dtype) == size * sum(p.numel() for p in hf.parameters())


def test_a_model_tells_what_it_was_put_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    monkeypatch.setattr(models, "choose_device", lambda n_bytes: counted.append(n_bytes()) or Choice("cpu", "there is room"))
    told: list[str] = []
    model = load_model(str(folder), revision=None, dtype="float32", device="auto", tell=told.append)
    assert (told, model.place) == (["there is room"], "cpu")
    assert counted == [4 * sum(p.numel() for p in model.hf.parameters())]
    load_model(str(folder), revision=None, dtype="float32", device="cpu", tell=pytest.fail)


@pytest.mark.parametrize(
    ("config", "gguf_file", "is_kept", "device", "chosen"),
    [
        ({"dtype": "bfloat16"}, None, False, "cpu", "float32"),
        ({"dtype": "bfloat16"}, None, False, "cuda:1", "bfloat16"),
        ({"torch_dtype": "float16"}, None, False, SPREAD, "float16"),
        ({}, None, False, "cuda", "float32"),
        ({"dtype": "float64"}, None, False, "cuda", "float32"),
        # 4 bits a weight are no number format of torch's
        ({"dtype": "bfloat16"}, "model.gguf", False, "cuda", "float32"),
        ({"dtype": "bfloat16"}, None, True, "cuda", "float32"),
    ],
)
def test_processors_compute_in_float32_and_gpus_in_what_the_checkpoint_has(
    config: dict[str, str], gguf_file: str | None, is_kept: bool, device: str, chosen: str
) -> None:
    assert models.choose_dtype(Source("m", "m", config, gguf_file=gguf_file, is_kept=is_kept), device).name == chosen


@pytest.mark.thorough
def test_a_number_format_that_was_chosen_is_said_and_that_of_an_atlas_stays(tmp_path: Path) -> None:
    tiny_hf("llama").to(torch.bfloat16).save_pretrained(tmp_path / "half")
    tiny_tokenizer().save_pretrained(tmp_path / "half")
    texts = {}
    for name, options in {"auto": [], "own": ["--dtype", "bfloat16"], "again": ["--head-probe"]}.items():
        target = tmp_path / f"{'own' if name == 'again' else name}.duckdb"
        words = [str(target), "--model", str(tmp_path / "half"), "--device", "cpu", *options]
        done = CliRunner().invoke(ingest, words, catch_exceptions=False)
        assert done.exit_code == 0
        with closing(open_reader(target)) as con:
            texts[name] = (
                con.execute("SELECT m.dtype FROM model AS m").fetchone(),
                "computing in float32, the format that suits processors best" in done.output,
            )
    assert texts == {"auto": (("float32",), True), "own": (("bfloat16",), False), "again": (("bfloat16",), False)}


def request(**given: object) -> Request:
    return asked(Path("a.duckdb"), "m", None, context=256, batch_size=0, **given)


@pytest.mark.parametrize(
    ("given", "n_gpus", "device", "said"),
    [
        ({"device": "auto"}, 0, "auto", None),
        ({"device": "cpu", "workers": 2}, 2, "cpu", None),
        ({"device": "auto", "workers": 2}, 2, "cuda", "computing on 2 GPUs, one a worker"),
        ({"device": "auto", "workers": 2}, 1, "cpu", f"2 workers need a GPU each, and torch {torch.__version__} sees 1"),
        ({"device": "auto", "workers": 2}, 0, "cpu", "sees 0, since this machine has no NVIDIA driver"),
        ({"device": "auto", "workers": 2, "ray": "auto"}, 2, "cpu", "computing on the processors of the cluster: --device cuda uses its GPUs"),
    ],
)
def test_several_workers_take_the_gpus_if_there_is_one_for_each(
    given: dict[str, object], n_gpus: int, device: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, driver=None)
    placed, note = place_workers(request(**given), n_gpus)
    assert placed.device == device
    assert note is None if said is None else said in (note or "")


def test_a_batch_is_as_large_as_what_computes_it_takes() -> None:
    """The driver of several workers has its model on the processors."""
    on_cpu = tiny_model("llama")
    on_gpu = replace(on_cpu, device=torch.device("cuda:0"))
    sizes = [size_batches(request(device=device), model).batch_size for device, model in (("auto", on_cpu), ("auto", on_gpu), ("cuda:1", on_gpu))]
    assert sizes == [8, 128, 128]
    assert [size_batches(request(device=device, workers=2), on_cpu).batch_size for device in ("cpu", "cuda")] == [8, 128]
    assert size_batches(replace(request(device="auto"), batch_size=3), on_gpu).batch_size == 3


def test_a_run_records_the_gpus_and_what_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, n_gpus=2)
    model, gpu = tiny_model("llama"), torch.device("cuda:0")
    assert computation_facts(request(device="auto"), model) == {"coefficients": "numba's kernel"}
    assert computation_facts(request(device="cpu", workers=2), model) == {"coefficients": "numba's kernel"}
    on_gpu = {"driver": "580.95.05", "cuda": "13.0", "coefficients": "torch's operations"}
    assert computation_facts(request(device="cuda", workers=2), model) == {"gpu": "NVIDIA cuda:0, NVIDIA cuda:1", **on_gpu}
    assert computation_facts(request(device="cuda", workers=2, ray="auto"), model) == {"coefficients": "torch's operations"}
    assert gpu_facts([gpu, torch.device("cpu")])["gpu"] == "NVIDIA cuda:0"
    assert gpu_facts([]) == gpu_facts([torch.device("cpu")]) == {}


def test_what_is_not_installed_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_umap(package: str) -> str:
        if package == "umap-learn":
            raise PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(register, "version", without_umap)
    found = register.versions.__wrapped__()
    assert "umap-learn" not in found and found["torch"] == version("torch")


@pytest.mark.thorough
def test_an_ingest_says_where_it_computes(folder: Path, tmp_path: Path) -> None:
    """By default, and of a dry run; not where it was told."""
    ran = {
        name: CliRunner().invoke(ingest, [str(tmp_path / f"{name}.duckdb"), "--model", str(folder), *options], catch_exceptions=False)
        for name, options in {"auto": [], "dry": ["--dry-run"], "cpu": ["--device", "cpu"]}.items()
    }
    assert {done.exit_code for done in ran.values()} == {0}
    said = {name: [line for line in done.output.splitlines() if line.startswith("computing on ")] for name, done in ran.items()}
    assert {name: len(lines) for name, lines in said.items()} == {"auto": 1, "dry": 1, "cpu": 0}
    with closing(open_reader(tmp_path / "cpu.duckdb")) as con:
        assert con.execute("SELECT device, versions ->> 'coefficients', versions ->> 'gpu' FROM run").fetchall() == [("cpu", "numba's kernel", None)]


@pytest.mark.parametrize("command", [ingest, suite_command, live, COMMANDS["run"]], ids=lambda command: command.name)
def test_every_command_takes_a_gpu_by_itself(command: click.Command) -> None:
    assert [option.default for option in command.params if option.name == "device"] == ["auto"]


def test_a_gpu_has_done_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what was asked of it before; a GPU that this process does not use is left alone."""
    done: list[object] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda gpu: gpu)
    monkeypatch.setattr(torch.cuda, "synchronize", done.append)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: done.append("clock") or len(done))
    timing.measure_seconds(lambda: done.append("action"))
    assert done == [1, "clock", "action", 1, "clock"]


def test_a_soft_cap_of_scores_is_computed_whatever_transformers_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of its versions give Gemma 2 code that leaves the cap out."""
    hf = tiny_hf("gemma2", attn_logit_softcapping=0.5)
    monkeypatch.setattr(type(hf).__mro__[1], "_supports_sdpa", True)
    monkeypatch.setattr(PreTrainedModel, "_sdpa_can_dispatch", lambda *_: True)
    hf.set_attn_implementation("sdpa")
    assert hf.config._attn_implementation == "sdpa"
    assert wrap(hf, tiny_tokenizer(), "capped").hf.config._attn_implementation == "eager"
    plain = tiny_hf("gemma2", attn_logit_softcapping=None)
    before = plain.config._attn_implementation
    assert wrap(plain, tiny_tokenizer(), "plain").hf.config._attn_implementation == before


def test_no_gpu_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, cuda=None)
    assert str(no_gpu()) == "it is a build without CUDA; install another build (docs/ingest.md: torch and your GPU)"
