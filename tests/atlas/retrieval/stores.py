"""Stores and atlases to look for neighbours in, written here without a model: keys that a test chooses, over texts of one token a position."""

import hashlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from atlas.beside.retrieval.entries import Store
from schema import SCHEMA_VERSION
from schema.build import create_tables, install_derived
from schema.key_files import keys_folder
from schema.open.store import open_writer

STEP = 2**40
"""position_ids and document_ids of corpus c begin at c · STEP."""


@dataclass(frozen=True)
class Text:
    """A corpus: documents of `length` positions each. keys: [n, d_model] of every position; tokens: [n], what is read there; surprisals: [n]."""

    length: int
    keys: np.ndarray
    tokens: np.ndarray
    surprisals: np.ndarray
    texts: list[str]


def write_file(path: Path, ids: np.ndarray, documents: np.ndarray, following: np.ndarray, keys: np.ndarray, group: int = 1000) -> dict[str, object]:
    """A file of entries as another hand would write it, and its row of key_file. Keys are stored in float16."""
    path.parent.mkdir(exist_ok=True)
    column = pa.FixedSizeListArray.from_arrays(pa.array(keys.astype(np.float16).ravel()), keys.shape[1])
    pq.write_table(
        pa.table({"position_id": ids, "document_id": documents, "next_token_id": following.astype(np.int32), "key": column}), path, row_group_size=group
    )
    return {
        "first_position_id": int(ids[0]), "last_position_id": int(ids[-1]), "name": path.name, "key_site": "ffn_in", "layer": 0, "min_index": 1,
        "dtype": "float16", "n_entries": len(ids), "n_bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }  # fmt: skip


def store_of(folder: Path, keys: np.ndarray, following: np.ndarray, documents: np.ndarray, group: int = 1000) -> Store:
    """A store of one file, whose position_ids are 10, 20, …"""
    row = write_file(folder / "keys.parquet", 10 * np.arange(1, len(keys) + 1), documents, following, keys, group)
    return Store(0, "ffn_in", 0, len(keys), int(str(row["n_bytes"])), "s", ((folder / "keys.parquet", int(str(row["n_bytes"])), str(row["sha256"])),))


def write_atlas(path: Path, corpora: list[Text], n_tokens: int = 300) -> Path:
    """An atlas with keys and predictions of each corpus; positions of index 0 and the last of a document have no key."""
    d_model = corpora[0].keys.shape[1]
    with closing(open_writer(path)) as con:
        create_tables(con, d_model)
        install_derived(con)
        model = ("made", "r0", "gpt2", 1, d_model, 4, 1, 1, d_model, n_tokens, "gelu", False, False, False, False, "float32", "ww", SCHEMA_VERSION)
        con.execute(f"INSERT INTO model VALUES ({', '.join('?' * len(model))})", model)
        insert(con, "token", [{"token_id": i, "text": f" t{i}"} for i in range(n_tokens)])
        for corpus_id, text in enumerate(corpora):
            insert_corpus(con, path, corpus_id, text)
    return path


def insert_corpus(con: duckdb.DuckDBPyConnection, path: Path, corpus_id: int, text: Text) -> None:
    base, n = corpus_id * STEP, len(text.tokens)
    starts = np.arange(0, n, text.length)
    index = np.arange(n) % text.length
    following = np.where(index < text.length - 1, np.append(text.tokens[1:], -1), -1)
    insert(
        con,
        "corpus",
        [{"corpus_id": corpus_id, "name": "made", "split": str(corpus_id), "source": "{}", "sha256": "c", "n_documents": len(starts), "n_positions": n}],
    )
    documents = [{"document_id": base + i, "corpus_id": corpus_id, "name": f"d{i}", "metadata": "{}", "text": text.texts[i]} for i in range(len(starts))]
    insert(con, "document", documents)
    insert(
        con,
        "sequence",
        [{"sequence_id": base + i, "document_id": base + i, "first_position_id": base + int(s), "n_positions": text.length} for i, s in enumerate(starts)],
    )
    ids = base + np.arange(n)
    places = [
        {"position_id": int(ids[i]), "sequence_id": base + i // text.length, "index": int(index[i]), "token_id": int(text.tokens[i]),
         "next_token_id": int(following[i]) if following[i] >= 0 else None, "char_start": int(index[i]), "char_end": int(index[i]) + 1}
        for i in range(n)
    ]  # fmt: skip
    insert(con, "position", places)
    predicted = [
        {"position_id": int(ids[i]), "surprisal": float(text.surprisals[i]) if following[i] >= 0 else None, "entropy": 1.0,
         "next_token_rank": 1 if following[i] >= 0 else None, "top_token_id": int(max(following[i], 0)), "top_prob": 0.5, "starts_word_prob": 0.5}
        for i in range(n)
    ]  # fmt: skip
    insert(con, "position_prediction", predicted)
    kept = (following >= 0) & (index >= 1)
    half = len(ids[kept]) // 2
    for part in (slice(0, half), slice(half, None)):
        of = ids[kept][part]
        row = write_file(keys_folder(path) / f"{of[0]}.parquet", of, base + (of - base) // text.length, following[kept][part], text.keys[kept][part], group=7)
        insert(con, "key_file", [{"corpus_id": corpus_id, **row}])


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: list[dict]) -> None:
    columns = {name: None for row in rows for name in row}
    required = "SELECT c.column_name, c.data_type FROM duckdb_columns() AS c WHERE c.table_name = ? AND NOT c.is_nullable"
    known = dict(con.execute(required, [table]).fetchall())
    blank = {"VARCHAR": "", "BOOLEAN": False, "JSON": "{}"}
    full = [{**{name: blank.get(kind, 0) for name, kind in known.items() if name not in columns}, **row} for row in rows]
    con.register("new_rows", pa.Table.from_pylist(full))
    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new_rows")
    con.unregister("new_rows")
