"""Changes of NAME.retrievals.duckdb: a retrieval is stored whole, or not at all."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from atlas.beside.retrieval import RETRIEVALS
from schema.errors import AtlasError
from schema.open.change import change_companion, insert_rows, next_id
from schema.open.others import differ

SAME = (
    "store_sha256", "tune_sha256", "test_sha256", "weights_sha256", "search", "n_queries", "most_neighbours", "seed", "is_training_text",
)  # fmt: skip
"""Columns that identify a retrieval: two retrievals with equal values are the same."""

THERE = (
    "SELECT r.retrieval_id, r.n_earlier_tests FROM retrievals.retrieval AS r "
    f"WHERE {' AND '.join(f'r.{name} IS NOT DISTINCT FROM ${name}' for name in SAME)} ORDER BY r.retrieval_id LIMIT 1"
)
EARLIER = "SELECT count(*) FROM retrievals.retrieval AS r WHERE r.store_sha256 = $store_sha256 AND r.test_sha256 = $test_sha256"
SHARED = {"position_text": "position_id", "token_text": "token_id"}
"""Tables whose rows several retrievals share → the id column of each."""

TEXT = {"position_text": "text_before", "token_text": "text"}
"""The same tables → the column that holds the text."""


@dataclass(frozen=True)
class KeptRetrieval:
    """A stored retrieval. is_new: whether it was just made. n_earlier_tests: how many earlier retrievals scored the same test corpus with
    the same store.
    """

    retrieval_id: int
    is_new: bool
    n_earlier_tests: int


def find_kept(con: duckdb.DuckDBPyConnection, row: Mapping[str, object]) -> KeptRetrieval | None:
    """Find the stored retrieval with the same settings over the same keys; return None if there is none."""
    found = con.execute(THERE, {name: row[name] for name in SAME}).fetchall()
    return KeptRetrieval(found[0][0], False, found[0][1]) if found else None


def keep(path: Path, row: Mapping[str, object], tables: Mapping[str, pa.Table]) -> KeptRetrieval:
    """Add a retrieval to the file beside the atlas. Raises the errors of `change_companion`, and then leaves the file unchanged."""
    with change_companion(RETRIEVALS, path) as con:
        retrieval_id = next_id(con, "retrievals", "retrieval_id")
        (n_earlier,) = con.execute(EARLIER, {name: row[name] for name in ("store_sha256", "test_sha256")}).fetchall()[0]
        whole = {**row, "retrieval_id": retrieval_id, "n_earlier_tests": n_earlier, "versions": json.dumps(row["versions"])}
        con.execute(f"INSERT INTO retrievals.retrieval ({', '.join(whole)}) VALUES ({', '.join('?' * len(whole))})", list(whole.values()))
        for name, rows in tables.items():
            insert(con, name, rows, retrieval_id)
        return KeptRetrieval(retrieval_id, True, n_earlier)


def insert(con: duckdb.DuckDBPyConnection, name: str, rows: pa.Table, retrieval_id: int) -> None:
    if name not in SHARED:
        insert_rows(con, f"retrievals.{name}", rows, retrieval_id=retrieval_id)
        return
    con.register("new_rows", rows)
    try:
        refuse_other_texts(con, name)
        # what is there may be a stranger's in its other columns, or there twice
        con.execute(f"DELETE FROM retrievals.{name} AS k WHERE k.{SHARED[name]} IN (SELECT r.{SHARED[name]} FROM new_rows AS r)")
        con.execute(f"INSERT INTO retrievals.{name} BY NAME FROM new_rows")
    finally:
        con.unregister("new_rows")


def refuse_other_texts(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Raise AtlasError if the file has another text for the id of a new row: its rows are then of an atlas whose model or text was replaced."""
    key = SHARED[name]
    pairs = f"FROM retrievals.{name} AS k INNER JOIN new_rows AS r ON k.{key} = r.{key}"
    if other := con.execute(f"SELECT k.{key} {pairs} WHERE {differ(f'k.{TEXT[name]}', f'r.{TEXT[name]}')} ORDER BY 1 LIMIT 1").fetchall():
        raise AtlasError(
            f"the retrievals beside this atlas are of another model or text, in which {key} {other[0][0]} is something else. One file cannot hold "
            "retrievals of both: move it away, and run this again. It is unchanged"
        )
