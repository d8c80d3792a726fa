"""A lake with the rows of an atlas file."""

from contextlib import closing
from pathlib import Path

import duckdb

from ingest.store.lake.store import opened_lake
from schema.open.lake import CATALOG, Lake, describe
from schema.tables import metadata


def push(source: Path, target: Path, lake: Lake) -> Path:
    """Describe at `target` a new lake that publishes what the file `source` holds."""
    describe(target, lake)
    with closing(duckdb.connect(str(source), read_only=True)) as file, opened_lake(target) as store:
        for table in metadata(1).tables:
            store.con.register("rows", file.execute(f"SELECT * FROM {table}").to_arrow_table())
            store.con.execute(f"INSERT INTO {CATALOG}.main.{table} BY NAME SELECT * FROM rows")
        store.publish()
    return target
