"""Which weights an atlas names: whoever made it may have named anything."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from ingest.live.weights import WantedModel, load_kept, load_wanted, wanted_model
from ingest.model.gguf import weights_folder, write_model
from ingest.model.models import load_model
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.live.conftest import World, private_sockets


@pytest.mark.parametrize("named", ["absolute", "relative", "", "0" * 63, "A" * 64, "0" * 64 + "\n"])
def test_an_atlas_cannot_name_a_folder_to_be_removed(world: World, tmp_path: Path, named: str) -> None:
    """A folder of the cache that holds no such weights is removed, and what an atlas calls its weights is the folder's name."""
    sent, precious = tmp_path / "sent.duckdb", tmp_path / "precious"
    shutil.copy(world.atlas, sent)
    with private_sockets():
        weights_folder().mkdir(parents=True)
        precious.mkdir()
        (precious / "thesis.txt").touch()
        digest = {"absolute": str(precious), "relative": f"../../../../..{precious}"}.get(named, named)
        with duckdb.connect(str(sent)) as con:
            con.execute("UPDATE model SET weights_sha256 = ?", [digest])
        with closing(open_reader(sent)) as con, pytest.raises(AtlasError, match="a SHA-256 has 64 hexadecimal digits") as refused:
            load_wanted(wanted_model(con), str(world.tiny.folder), "cpu", lambda _: None)
        assert "\n" not in str(refused.value)
        assert (precious / "thesis.txt").exists()
        assert weights_folder().exists()


EVIL = """
from pathlib import Path
Path(__file__).with_name("has_run").touch()
"""


def save_with_program(world: World, folder: Path) -> WantedModel:
    """What an atlas says that names a folder here, whose model comes with a program of its own."""
    shutil.copytree(world.tiny.folder, folder)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {name: f"evil.{name}" for name in ("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer")}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(EVIL)
    with closing(open_reader(world.atlas)) as con:
        return wanted_model(con)._replace(name=str(folder))


@pytest.mark.thorough
def test_an_atlas_that_names_a_folder_here_has_its_weights_read_and_no_code_run(world: World, tmp_path: Path) -> None:
    wanted = save_with_program(world, tmp_path / "model")
    with private_sockets():
        assert load_wanted(wanted, None, "cpu", lambda _: None).weights_sha256 == wanted.weights_sha256
        other = "0" * 64
        with pytest.raises(AtlasError, match=r"the weights of .*model have SHA-256 .*; the atlas was made from .*model with 000000000000") as refused:
            load_wanted(wanted._replace(weights_sha256=other, revision=other[:12]), None, "cpu", lambda _: None)
    assert "\n" not in str(refused.value)
    assert sorted(path.name for path in tmp_path.rglob("has_run")) == []


def save_dequantised(world: World, folder: Path) -> WantedModel:
    """Keep the tiny model as one that a GGUF file gave: transformers refuses to save what says that it was quantised."""
    model = load_model(str(world.tiny.folder), revision=None, dtype="float32", device="cpu")
    model.hf.config.quantization_config = {"quant_method": "gguf"}
    write_model(model.hf, model.tokenizer, folder)
    return WantedModel("tiny.gguf", "r", "float32", model.weights_sha256)


def test_what_a_gguf_file_gave_is_kept_to_the_bit_and_named_as_before(world: World, tmp_path: Path) -> None:
    wanted = save_dequantised(world, tmp_path / "kept" / "model")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["model"]
    assert sorted(path.suffix for path in (tmp_path / "kept" / "model").glob("*model*")) == [".safetensors"]
    found = load_kept(tmp_path / "kept" / "model", wanted, "cpu", lambda _: None)
    assert found is not None
    assert (found.name, found.revision, found.weights_sha256) == ("tiny.gguf", "r", wanted.weights_sha256)


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(file.read_bytes()[:-100]), lambda file: file.write_bytes(file.read_bytes()[:-1] + b"x")])
def test_what_was_kept_and_is_not_what_is_wanted_goes(world: World, tmp_path: Path, damage: Callable[[Path], int]) -> None:
    wanted = save_dequantised(world, tmp_path / "model")
    damage(tmp_path / "model" / "model.safetensors")
    assert load_kept(tmp_path / "model", wanted, "cpu", lambda _: None) is None
    assert not (tmp_path / "model").exists()
