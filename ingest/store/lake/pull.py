"""Copying of a lake, or of some of its layers, into an atlas file."""

import os
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path

import duckdb
from sqlalchemy import Table

from ingest.store.snapshot import Sums, add_up, put_in_place
from schema.build import create_tables, install_derived
from schema.errors import AtlasError
from schema.open.drafts import discard, new_draft, remove_left
from schema.open.kinds import kind_of
from schema.open.lake import CATALOG, Lake, attach_published, connect, read_lake
from schema.open.locks import hold_lock_file
from schema.open.names import escape_quotes
from schema.open.older import found_columns
from schema.open.store import OFFLINE, atlas_options
from schema.table_digests import STORED, store_digests


def pull(source: Path, target: Path, layers: Collection[int] | None, memory: str) -> None:
    """Copy the lake's last published state into a new file at `target`. layers: the only layers to copy, in tables that have layers; None for all.

    Raises AtlasError if something is at `target`, or if the model has no such layer; no new file is then left.
    """
    refuse_taken(target)
    if kind := kind_of(target):
        raise AtlasError(f"cannot make {target}: names that end in {kind.name}.duckdb are for the {kind.name} of an atlas; give another name")
    if not target.parent.is_dir():
        raise AtlasError(f"cannot make {target}: there is no folder {target.parent}")
    lake, refusal = read_lake(source), f"another process is pulling into {target}: wait for it, or give another name"
    with hold_lock_file(target.with_name(f"{target.name}.lock"), refusal, patience=0):
        # it may have come to its end meanwhile
        refuse_taken(target)
        remove_left(target)
        try:
            with closing(connect(lake, {**OFFLINE, "memory_limit": memory})) as con:
                copy(con, lake, source, target, layers)
        except duckdb.Error as error:
            raise AtlasError(f"{source} could not be pulled, and no file was made at {target}: {' '.join(str(error).split())}") from error


def refuse_taken(target: Path) -> None:
    if os.path.lexists(target):
        raise AtlasError(f"{target} exists already: give another name, or remove it")


def copy(con: duckdb.DuckDBPyConnection, lake: Lake, source: Path, target: Path, layers: Collection[int] | None) -> None:
    attach_published(con, lake, source)
    d_model, n_layers = con.execute(f"SELECT m.d_model, m.n_layers FROM {CATALOG}.main.model AS m").fetchall()[0]
    if wrong := sorted(set(layers or ()) - set(range(n_layers))):
        raise AtlasError(f"the model of {source} has layers 0 to {n_layers - 1}, and no {', '.join(map(str, wrong))}")
    draft = new_draft(target)
    try:
        put_in_place(con, draft, target, build_pulled_atlas(con, draft, d_model, layers))
    except BaseException:
        discard(draft)
        raise


def build_pulled_atlas(con: duckdb.DuckDBPyConnection, draft: Path, d_model: int, layers: Collection[int] | None) -> dict[str, Sums]:
    """Build the file, with every table, view and question; return the sums of each table."""
    con.execute(f"ATTACH '{escape_quotes(str(draft))}' AS pulled ({atlas_options(d_model)})")
    con.execute("USE pulled")
    sums = add_up(con, fill_tables(con, [*create_tables(con, d_model).tables.values()], layers))
    store_digests(con, "pulled", {table: found.digest for table, found in sums.items()})
    install_derived(con)
    con.execute("CHECKPOINT pulled")
    con.execute("USE memory")
    con.execute("DETACH pulled")
    return sums


def fill_tables(con: duckdb.DuckDBPyConnection, tables: Sequence[Table], layers: Collection[int] | None) -> dict[str, str]:
    """Fill each table from the lake; return table → the place from which to read its rows."""
    there = found_columns(con, CATALOG)
    for table in tables:
        if table.name in there.keys() - {STORED}:  # a lake that was published before this release may not have it
            con.execute(f"INSERT INTO {table.name} BY NAME {selection_sql(table, layers)}")
    return {table.name: f"pulled.main.{table.name}" for table in tables if table.name != STORED}


def selection_sql(table: Table, layers: Collection[int] | None) -> str:
    """Write the SELECT over a table of the lake, with its rows in the order in which an atlas file has them."""
    where = f" WHERE layer IN ({', '.join(map(str, sorted(layers)))})" if layers is not None and "layer" in table.columns else ""
    order = f" ORDER BY {', '.join(table.info['sort'])}" if table.info["sort"] else ""
    return f"SELECT * FROM {CATALOG}.main.{table.name}{where}{order}"
