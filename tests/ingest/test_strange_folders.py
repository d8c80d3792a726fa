"""Model folders of strangers: a configuration that asks for more than its weights hold, weights that are elsewhere, files that are none. Each is one line,
said before memory is taken."""

import json
import os
import resource
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from ingest.model.architectures import architecture_of
from ingest.model.fitting import require_fit
from ingest.model.models import load_model
from ingest.model.sources import find_source
from schema.errors import AtlasError
from tests.ingest.tiny_models import FAMILIES, tiny_hf, tiny_tokenizer

Change = Callable[[Path], object]

ROOM = 1 << 30
"""Bytes that loading may take beside what this process has: the models have thousands."""


@pytest.fixture
def little_room() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def saved(folder: Path, model_type: str) -> Path:
    tiny_hf(model_type).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(AtlasError) as caught:
        load_model(str(folder), revision=None, dtype="float32", device="cpu")
    return str(caught.value)


def config(**changes: object) -> Change:
    return lambda folder: (folder / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text()) | changes))


def index(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "x.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": {"wte.weight": name}}))

    return change


def pickled(compression: int, name: str = "pytorch_model.bin") -> Change:
    """The weights as torch writes them, or compressed, as it does not."""

    def change(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        torch.save(tiny_hf("gpt2").state_dict(), folder / "plain")
        with zipfile.ZipFile(folder / "plain") as plain, zipfile.ZipFile(folder / name, "w", compression) as packed:
            for entry in plain.infolist():
                packed.writestr(entry.filename, plain.read(entry))
        (folder / "plain").unlink()

    return change


def said_by(pickle: bytes) -> Change:
    """A file of torch's whose tensors are named by this pickle."""

    def change(folder: Path) -> None:
        pickled(zipfile.ZIP_STORED, "plain.bin")(folder)
        with zipfile.ZipFile(folder / "plain.bin") as plain, zipfile.ZipFile(folder / "pytorch_model.bin", "w") as made:
            for entry in plain.infolist():
                made.writestr(entry.filename, pickle if entry.filename.endswith("data.pkl") else plain.read(entry))
        (folder / "plain.bin").unlink()

    return change


def many_names() -> bytes:
    header = json.dumps({f"x{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(140_000)}).encode()
    return len(header).to_bytes(8, "little") + header


def each(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


STRANGE: dict[str, tuple[str, Change, str]] = {
    "vocabulary": ("gpt2", config(vocab_size=40_000_000), "mismatched: transformer.wte.weight is [300, 16] and should be [40000000, 16]"),
    "index to a device": ("gpt2", index("/dev/zero"), "model.safetensors.index.json names '/dev/zero', which is no file of the model's folder"),
    "labels": ("gpt2", config(num_labels=40_000_000), "its config.json says 40,000,000 labels, and 10,000 are read at most"),
    "positions": ("gpt2", config(n_positions=40_000_000), "mismatched: transformer.wpe.weight is [64, 16] and should be [40000000, 16]"),
    "neurons": ("gpt2", config(n_inner=10_000_000), "transformer.h.0.mlp.c_fc.bias is [40] and should be [10000000]"),
    "width": ("llama", config(hidden_size=10**6), "model.embed_tokens.weight is [300, 16] and should be [300, 1000000]"),
    "heads": ("llama", config(head_dim=10**8), "model.layers.0.self_attn.k_proj.weight is [8, 16] and should be"),
    "no such number": ("llama", config(intermediate_size=10**30), "cannot read its config.json: "),
    "less than none": ("llama", config(intermediate_size=-1), "cannot read its config.json: "),
    "masks": ("gptj", config(n_positions=10**9), "by its config.json, masks and position tables take "),
    "layers of a kind": ("gpt_neo", config(attention_types=[[["global", "local"], 10**10]]), "its config.json says 20,000,000,000 layers"),
    "layers of a pickle": ("gpt2", each(pickled(zipfile.ZIP_STORED), config(n_layer=30_000)), "says 30,000 layers, and its weights hold "),
    "weights of a pickle": ("gpt2", each(pickled(zipfile.ZIP_STORED), config(vocab_size=40_000_000)), " weights, and its weight files have "),
    "a bomb": ("gpt2", pickled(zipfile.ZIP_DEFLATED), "pytorch_model.bin is compressed, which files of torch never are"),
    "index to another folder": ("gpt2", index("../x.safetensors"), "names '../x.safetensors', which is no file of the model's folder"),
    "index to nothing": ("gpt2", index("y.safetensors"), "names 'y.safetensors', which is no file of the model's folder"),
    "index to a folder": ("gpt2", index(".."), "names '..', which is no file of the model's folder"),
    "index of lists": ("gpt2", index([]), "cannot read its weights: TypeError"),  # type: ignore[arg-type]
    "link to a device": ("gpt2", lambda f: (f / "chat_template.jinja").symlink_to("/dev/zero"), "neither a file nor a folder"),
    "a pipe": ("gpt2", lambda f: os.mkfifo(f / "vocab.txt"), "and the folder of a model holds only those: remove it"),
    "a long configuration": ("gpt2", lambda f: os.truncate(f / "config.json", 1 << 33), "config.json has 8,589,934,592 bytes; at most 4,194,304 can be read"),
    "a deep configuration": ("gpt2", lambda f: (f / "config.json").write_text('{"a":' * 10**5), "cannot read its config.json: RecursionError"),
    "a configuration of digits": ("gpt2", lambda f: (f / "config.json").write_text("9" * 10**6), "cannot read its config.json: ValueError"),
    "a filled memory": ("gpt2", said_by(b"\x80\x02cbuiltins\nbytearray\nJ\x00\x00\x00\x7f\x85R."), "a pickle that is damaged or holds more than tensors"),
    "a tensor of any size": ("gpt2", said_by(b"\x80\x02ctorch\nFloatTensor\nJ\x00\x00\x00\x7f\x85R."), "a pickle that is damaged or holds more than tensors"),
    "many names": ("gpt2", lambda f: (f / "model.safetensors").write_bytes(many_names()), "model.safetensors names 140,000 tensors, and 131,072 are read"),
    "a long header": ("gpt2", lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 7 + b"\x00" + b"{" * 99), "cannot read its weights: SafetensorError"),
}  # fmt: skip


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("case", STRANGE)
@pytest.mark.usefixtures("little_room")
def test_what_does_not_fit_is_refused_in_a_line_before_memory_is_taken(tmp_path: Path, case: str) -> None:
    model_type, change, said = STRANGE[case]
    change(saved(tmp_path / "m", model_type))
    found = refusal(tmp_path / "m")
    assert said in found
    assert "\n" not in found
    assert len(found) < 600


def test_a_header_of_a_gguf_file_is_read_up_to_a_number_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.model.gguf.MOST_VALUES", 1000)
    said = {b"general.architecture": struct.pack("<IQ", 8, 5) + b"llama", b"tokenizer.ggml.tokens": struct.pack("<IIQ", 9, 8, 1000) + bytes(8 * 1000)}
    header = b"".join(struct.pack("<Q", len(key)) + key + value for key, value in said.items())
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(said)) + header)
    assert "cannot read its GGUF header: ValueError: it holds more than 1,000 values beside its weights" in refusal(tmp_path / "a.gguf")


def halved(hf: PreTrainedModel, folder: Path) -> None:
    hf.half().save_pretrained(folder)


def sharded(hf: PreTrainedModel, folder: Path) -> None:
    hf.save_pretrained(folder, max_shard_size="4KB")


def in_the_old_format(hf: PreTrainedModel, folder: Path) -> None:
    """As torch wrote before 1.6."""
    hf.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(hf.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def without_prefix(hf: PreTrainedModel, folder: Path) -> None:
    """As the first checkpoints of GPT-2 were stored."""
    hf.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save({name.removeprefix(f"{hf.base_model_prefix}."): p for name, p in hf.state_dict().items()}, folder / "pytorch_model.bin")


@pytest.mark.parametrize("model_type", FAMILIES)
def test_every_family_fits_its_weights_however_they_are_stored(tmp_path: Path, model_type: str) -> None:
    for ties in (True, False):
        for save in (sharded, halved, in_the_old_format, without_prefix):
            folder = tmp_path / f"{save.__name__}-{ties}"
            save(tiny_hf(model_type, tie_word_embeddings=ties), folder)
            source = find_source(str(folder), None)
            require_fit(source, architecture_of(source.config, source.name).stream.layers)
