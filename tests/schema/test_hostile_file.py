"""An atlas that a stranger sent does nothing while it is opened: what is defined in it is not run before other files are out of reach."""

from contextlib import closing, suppress
from pathlib import Path

import duckdb
import pytest

import atlas
from atlas import AtlasError, NotAnAtlas
from atlas.annotations.kind import ANNOTATIONS
from tests.atlas.tiny_atlas import write_tiny_atlas

LOGS = "FROM enable_logging('QueryLog', storage = 'file', storage_config = {{'path': '{folder}'}})"


def spoiled(path: Path, *statements: str) -> None:
    with closing(duckdb.connect(path)) as con:
        for statement in statements:
            con.execute(statement)


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TYPE release_digest", "CREATE MACRO release_digest() AS (SELECT count(*) FROM ({logs}))"),
        ("DROP TYPE release_digest", "ALTER TABLE model RENAME TO real", "CREATE VIEW model AS SELECT r.* FROM real AS r, ({logs})"),
        ("ALTER TABLE model RENAME TO real", "CREATE VIEW model AS SELECT r.* FROM real AS r, ({logs})"),
        (
            "CREATE SCHEMA other",
            "CREATE TABLE other.model (i INTEGER)",
            "ALTER TABLE model RENAME TO real",
            "CREATE VIEW model AS SELECT r.* FROM real AS r, ({logs})",
        ),
    ],
)
def test_opening_an_atlas_runs_nothing_of_it(tmp_path: Path, statements: tuple[str, ...]) -> None:
    logs = tmp_path / "logs"
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    spoiled(path, *(statement.format(logs=LOGS.format(folder=logs)) for statement in statements))
    with suppress(NotAnAtlas):
        atlas.open(path).close()
    assert not logs.exists()


def test_opening_annotations_runs_nothing_of_them(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    path = write_tiny_atlas(tmp_path / "sent.duckdb")
    spoiled(ANNOTATIONS.path(path), f"CREATE VIEW annotation_schema AS SELECT 1 AS version, '' AS derived_sha256 FROM ({LOGS.format(folder=logs)})")
    with pytest.raises(AtlasError, match="has version none"):
        atlas.open(path)
    assert not logs.exists()
