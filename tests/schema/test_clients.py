"""Files are such as DuckDB 1.2.0 opens, and no bigger for it. `make clients` asks older and newer versions themselves."""

from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from ingest.store.snapshot import publish
from schema.open.kinds import kinds
from schema.open.store import atlas_options, open_writer
from tests.atlas.annotations.tiny_annotations import write_tiny_annotations
from tests.atlas.tiny_atlas import write_tiny_atlas

NEWEST_OF_1_2 = 65
"""The number of a file's format, of those that DuckDB 1.2.0 says it reads."""


def read_format(path: Path) -> int:
    """Its place in a DuckDB file is behind a checksum and the letters DUCK."""
    return int.from_bytes(path.read_bytes()[12:20], "little")


def test_duckdb_1_2_reads_what_is_written(tmp_path: Path) -> None:
    source, target = write_tiny_atlas(tmp_path / "source.duckdb"), tmp_path / "atlas.duckdb"
    with closing(open_writer(source)) as con:
        publish(con, target, tmp_path)
    write_tiny_annotations(target)
    (annotations,) = (kind.file(target) for kind in kinds() if kind.name == "annotations")
    assert [read_format(file) <= NEWEST_OF_1_2 for file in (target, annotations)] == [True, True]


@pytest.mark.parametrize(("d_model", "rows"), [(2, 122_880), (576, 28_672), (768, 20_480), (4096, 4096), (16_384, 2048)])
def test_a_row_group_holds_16_million_numbers_and_whole_vectors_of_duckdb(d_model: int, rows: int) -> None:
    assert atlas_options(d_model).endswith(f"ROW_GROUP_SIZE {rows}")


@pytest.mark.thorough
def test_states_take_no_more_than_their_numbers(tmp_path: Path) -> None:
    """Without smaller row groups DuckDB fills its blocks by half: 197 MB for these 123."""
    file, shape = tmp_path / "states.duckdb", (40_000, 768)
    rng = np.random.default_rng(0)
    numbers = (rng.standard_normal(shape) * np.exp(rng.standard_normal(shape[1]))).astype(np.float32)
    states = pa.table({"state": pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), shape[1])})
    with duckdb.connect() as con:
        con.register("states", states)
        con.execute(f"ATTACH '{file}' AS new ({atlas_options(shape[1])})")
        con.execute("CREATE TABLE new.state AS SELECT s.state FROM states AS s")
        con.execute("CHECKPOINT new")
        con.execute("DETACH new")
    assert file.stat().st_size < numbers.nbytes
