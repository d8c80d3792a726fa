"""The nasty atlas, written once, and a copy for each test that annotates it."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from schema.open import store
from tests.atlas.annotations.nasty_atlas import write_nasty_atlas


@pytest.fixture(scope="session")
def nasty_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of its eight texts, and of 'The cat', each is a sequence, which begins where the first does: of one sequence one text alone would be shown."""
    path = write_nasty_atlas(tmp_path_factory.mktemp("nasty") / "nasty.duckdb")
    with closing(store.open_writer(path)) as con:
        con.execute("UPDATE sequence SET n_positions = 1 WHERE sequence_id = 200")
        con.execute("INSERT INTO sequence SELECT p.position_id, 200, 200, 1 FROM position AS p WHERE p.position_id BETWEEN 201 AND 207")
        con.execute("INSERT INTO sequence VALUES (2002, 0, 0, 1)")
        con.execute("UPDATE position SET sequence_id = position_id WHERE position_id BETWEEN 201 AND 207")
        con.execute("UPDATE position SET sequence_id = 2002 WHERE position_id = 2")
    return path


@pytest.fixture
def nasty_path(nasty_original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(nasty_original, tmp_path))
