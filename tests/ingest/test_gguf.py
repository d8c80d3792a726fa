"""A GGUF file is converted once: what is kept of it loads to the same bits, and what is damaged is converted anew."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import gguf
import pytest
import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel

from ingest.model.gguf import keep_converted_model, place_of, weights_folder
from ingest.model.loading import hash_weights
from ingest.model.models import Model, load_model
from tests.ingest.tiny_gguf import write_gguf
from tests.ingest.tiny_models import tiny_hf, tiny_tokenizer

DTYPES = ["float32", "bfloat16"]


def tiny_llama(seed: int = 0) -> PreTrainedModel:
    """Without biases, as models of that name in GGUF files are."""
    return tiny_hf("llama", seed=seed, vocab_size=len(tiny_tokenizer()), tie_word_embeddings=False, attention_bias=False, mlp_bias=False)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_gguf(tmp_path / "tiny.gguf", tiny_llama(), tiny_tokenizer())


def loaded(file: Path, dtype: str = "float32", said: list[str] | None = None) -> tuple[Model, int]:
    """The model, and how often a reader parsed the file."""
    with patch.object(gguf.GGUFReader, "_build_fields", autospec=True, side_effect=gguf.GGUFReader._build_fields) as parsed:
        model = load_model(str(file), revision=None, dtype=dtype, device="cpu", tell=[].append if said is None else said.append)
    return model, parsed.call_count


def kept() -> list[str]:
    return sorted(path.name for path in weights_folder().iterdir())


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_kept_is_the_model_that_was_written_and_the_header_is_parsed_once(file: Path, dtype: str) -> None:
    hf = tiny_llama().to(getattr(torch, dtype))
    first, n_parsed = loaded(file, dtype)
    second, n_parsed_again = loaded(file, dtype)
    assert (n_parsed, n_parsed_again) == (1, 0)
    digest = hash_weights(hf)
    assert kept() == [place_of(file, dtype).name]
    text, ids = "<|begin|>and the other Ünïcode", torch.tensor([[0, 5, 9, 200, 3]])
    for model in (first, second):
        assert (model.name, model.revision, model.weights_sha256, model.dtype) == ("tiny.gguf", digest[:12], digest, getattr(torch, dtype))
        assert model.tokenizer(text).input_ids == tiny_tokenizer()(text).input_ids
        with torch.inference_mode():
            assert torch.equal(model.hf(ids).logits, hf(ids).logits)


def cut(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:-100])


def swap(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\x80\x3f")


def lose(weights: Path) -> None:
    weights.unlink()


@pytest.mark.parametrize("damage", [cut, swap, lose])
def test_what_was_kept_and_is_damaged_is_converted_anew(file: Path, damage: Callable[[Path], None]) -> None:
    digest = loaded(file)[0].weights_sha256
    damage(place_of(file, "float32") / "model.safetensors")
    said: list[str] = []
    again, n_parsed = loaded(file, said=said)
    assert (again.weights_sha256, n_parsed, said) == (
        digest,
        1,
        ["note: the cached model that tiny.gguf was converted to is damaged; the file is converted again"],
    )
    assert loaded(file)[1] == 0


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_another_configuration_beside_the_same_weights_is_not_the_model(file: Path, name: str) -> None:
    """The digest of the weights says nothing of how they are read."""
    first, _ = loaded(file)
    other = place_of(file, "float32") / name
    other.write_text(other.read_text().replace("10000", "20000") + " ")
    again, n_parsed = loaded(file)
    assert (n_parsed, again.hf.config.rope_parameters) == (1, first.hf.config.rope_parameters)


def test_two_files_with_the_same_weights_are_read_each_as_it_says(file: Path) -> None:
    hf = tiny_llama()
    hf.config.rms_norm_eps = 0.5
    other = write_gguf(file.with_name("other.gguf"), hf, tiny_tokenizer())
    for _ in range(2):
        one, two = (loaded(path)[0] for path in (file, other))
        assert one.weights_sha256 == two.weights_sha256
        assert (one.hf.config.rms_norm_eps, two.hf.config.rms_norm_eps) == (pytest.approx(1e-6), 0.5)


def test_a_file_in_the_place_of_what_is_kept_is_replaced(file: Path) -> None:
    place_of(file, "float32").parent.mkdir(parents=True, exist_ok=True)
    place_of(file, "float32").write_text("the name of another folder")
    assert [loaded(file)[1] for _ in range(2)] == [1, 0]


def test_a_full_disk_keeps_nothing_and_the_model_is_loaded(file: Path) -> None:
    with patch("ingest.model.gguf.write_model", side_effect=SafetensorError("I/O error: File too large")):
        model, _ = loaded(file)
    assert model.name == "tiny.gguf" and kept() == []


def test_another_file_of_that_name_is_another_model(file: Path) -> None:
    digest = loaded(file)[0].weights_sha256
    write_gguf(file, tiny_llama(seed=1), tiny_tokenizer())
    assert loaded(file)[0].weights_sha256 != digest


def test_where_nothing_can_be_kept_each_loading_converts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file.parent / "none").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file.parent / "none"))
    digests = [loaded(file) for _ in range(2)]
    assert [(model.weights_sha256, n) for model, n in digests] == [(digests[0][0].weights_sha256, 1)] * 2


def test_a_conversion_that_dies_leaves_no_half_of_a_model(file: Path) -> None:
    model, _ = loaded(file)
    before = kept()
    with patch("ingest.model.gguf.Path.rename", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        keep_converted_model(model.hf, model.tokenizer, "0" * 64, file, "float16")
    assert kept() == before
