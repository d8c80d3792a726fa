"""Keys of a text, against hooks on the modules of transformers' own models, named here by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from ingest.model.architectures import ARCHITECTURES
from ingest.model.models import Model
from ingest.passes import passes
from ingest.recorders.key_entries import KeyRecorder
from ingest.recorders.reading import read_batch
from ingest.text.sequences import Sequence
from schema.errors import AtlasError
from schema.key_files import file_sha256
from tests.exact.tiny import asked
from tests.ingest.test_device import add_limit
from tests.ingest.test_predictions import TEXTS, sequences
from tests.ingest.tiny_models import FAMILIES, tiny_model

PASS = passes()["keys"]

torch.set_num_threads(1)

READS = {
    "bloom": "transformer.h.1.mlp.dense_h_to_4h",
    "gemma": "model.layers.1.mlp.gate_proj",
    "gemma2": "model.layers.1.mlp.gate_proj",
    "gemma3_text": "model.layers.1.mlp.gate_proj",
    "gpt2": "transformer.h.1.mlp",
    "gpt_neo": "transformer.h.1.mlp",
    "gpt_neox": "gpt_neox.layers.1.mlp",
    "gptj": "transformer.h.1.mlp",
    "granite": "model.layers.1.mlp.gate_proj",
    "llama": "model.layers.1.mlp.gate_proj",
    "mistral": "model.layers.1.mlp.gate_proj",
    "olmo2": "model.layers.1.mlp.gate_proj",
    "opt": "model.decoder.layers.1.fc1",
    "phi": "model.layers.1.mlp",
    "qwen2": "model.layers.1.mlp.gate_proj",
    "qwen3": "model.layers.1.mlp.gate_proj",
}
"""Family → the module of the last block whose input is what its FFN reads; not the one that the recorder listens to, where the block has another."""


def recorded(model: Model, folder: Path, min_index: int = 1, texts: tuple[Sequence, ...] = sequences(TEXTS)) -> dict[str, np.ndarray]:
    """The entries of the file that is written for some texts."""
    recorder = KeyRecorder(model, folder, 0, min_index)
    list(read_batch(model, [(recorder, None)], texts))
    (row,) = recorder.tables(lambda _: None)["key_file"].to_pylist()
    path = folder / row["name"]
    found = pq.read_table(path)
    ids = found["position_id"].to_pylist()
    assert (row["n_entries"], row["sha256"], row["n_bytes"]) == (found.num_rows, file_sha256(path), path.stat().st_size)
    assert (row["first_position_id"], row["last_position_id"]) == (ids[0], ids[-1])
    assert str(found.schema.field("key").type) == f"fixed_size_list<element: halffloat>[{model.d_model}]"
    assert str(found.schema.field("next_token_id").type) == "int32"
    return {name: np.array(found[name].to_pylist()) for name in found.column_names}


def expected(model: Model, model_type: str, min_index: int = 1) -> list[tuple[int, int, np.ndarray]]:
    """position_id, next_token_id and state of every entry, one sequence at a time."""
    module, seen = model.hf.get_submodule(READS[model_type]), []
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().reshape(-1, model.d_model)))
    rows = []
    for s in sequences(TEXTS):
        seen.clear()
        with torch.no_grad():
            model.hf(torch.from_numpy(s.token_ids.astype(np.int64))[None])
        kept = [i for i in range(len(s.token_ids)) if i >= min_index and s.next_token_ids[i] >= 0]
        rows += [(s.first_position_id + i, int(s.next_token_ids[i]), seen[0][i].double().numpy()) for i in kept]
    handle.remove()
    return rows


def test_every_family_is_here() -> None:
    assert set(READS) == set(ARCHITECTURES)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_keys_are_what_the_last_ffn_reads(model_type: str, tmp_path: Path) -> None:
    model = tiny_model(model_type)
    found, wanted = recorded(model, tmp_path), expected(model, model_type)
    assert found["position_id"].tolist() == [position_id for position_id, _, _ in wanted]
    assert found["next_token_id"].tolist() == [token for _, token, _ in wanted]
    np.testing.assert_allclose(found["key"].astype(np.float64), np.stack([state for _, _, state in wanted]), rtol=2**-10, atol=1e-4)


def test_padding_is_no_entry_and_the_first_index_can_be_kept(tmp_path: Path) -> None:
    """The batch pads 35 of 60 places; of 27 positions four are the last of a text."""
    n_followed = sum(int((s.next_token_ids >= 0).sum()) for s in sequences(TEXTS))
    n_first = sum(int(s.next_token_ids[0] >= 0) for s in sequences(TEXTS))
    model = tiny_model("gpt2")
    assert len(recorded(model, tmp_path)["position_id"]) == n_followed - n_first
    assert len(recorded(model, tmp_path, min_index=0)["position_id"]) == n_followed
    assert len(recorded(model, tmp_path, min_index=3)["position_id"]) < n_followed - 2 * n_first


def test_a_batch_that_comes_again_in_parts_counts_once(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    whole = recorded(model, tmp_path / "whole")
    add_limit(model, 2, 1, [])
    parts = recorded(model, tmp_path / "parts")
    assert parts["position_id"].tolist() == whole["position_id"].tolist()
    np.testing.assert_allclose(parts["key"], whole["key"], rtol=2**-9, atol=1e-4)


def test_the_last_ids_of_a_large_vocabulary_are_kept(tmp_path: Path) -> None:
    """Beyond 32,767 an int16 would give another token."""
    model = tiny_model("gpt2")
    large = tuple(replace(s, next_token_ids=np.where(s.next_token_ids < 0, -1, s.next_token_ids + 128_000).astype(np.int32)) for s in sequences(TEXTS))
    found, small = recorded(model, tmp_path / "large", texts=large), recorded(model, tmp_path / "small")
    assert found["next_token_id"].tolist() == [token + 128_000 for token in small["next_token_id"].tolist()]


def test_a_state_that_float16_cannot_hold_is_refused(tmp_path: Path) -> None:
    model = tiny_model("olmo2")
    with torch.no_grad():
        model.hf.get_submodule("model.embed_tokens").weight.mul_(1e6)
    with pytest.raises(AtlasError, match="at position 101 does not fit in float16"):
        recorded(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_text_without_entries_brings_nothing(tmp_path: Path) -> None:
    recorder = KeyRecorder(tiny_model("gpt2"), tmp_path, 0, 50)
    list(read_batch(recorder.model, [(recorder, None)], sequences(TEXTS)))
    assert recorder.tables(lambda _: None) == {}


def test_keys_of_a_lake_are_refused() -> None:
    request = asked(Path("a.lake"), "model", "text", keys=True)
    assert PASS.is_wanted(request)
    with pytest.raises(AtlasError, match=r"--keys: keys are stored in a folder beside an atlas file, but a.lake is a lake"):
        PASS.check(request)
