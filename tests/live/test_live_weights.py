"""Which weights an atlas names: whoever made it may have named anything."""

import shutil
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from ingest.live.weights import cache_folder, load_wanted, wanted_model
from schema.errors import AtlasError
from schema.store import open_reader
from tests.live.conftest import World, private_sockets


@pytest.mark.parametrize("named", ["absolute", "relative", "", "0" * 63, "A" * 64, "0" * 64 + "\n"])
def test_an_atlas_cannot_name_a_folder_to_be_removed(world: World, tmp_path: Path, named: str) -> None:
    """A folder of the cache that holds no such weights is removed, and what an atlas calls its weights is the folder's name."""
    sent, precious = tmp_path / "sent.duckdb", tmp_path / "precious"
    shutil.copy(world.atlas, sent)
    with private_sockets():
        cache_folder().mkdir(parents=True)
        precious.mkdir()
        (precious / "thesis.txt").touch()
        digest = {"absolute": str(precious), "relative": f"../../../../..{precious}"}.get(named, named)
        with duckdb.connect(str(sent)) as con:
            con.execute("UPDATE model SET weights_sha256 = ?", [digest])
        with closing(open_reader(sent)) as con, pytest.raises(AtlasError, match="a SHA-256 has 64 hexadecimal digits") as refused:
            load_wanted(wanted_model(con), str(world.tiny.folder), "cpu", lambda _: None)
        assert "\n" not in str(refused.value)
        assert (precious / "thesis.txt").exists()
        assert cache_folder().exists()
