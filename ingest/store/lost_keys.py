"""Files of keys that an atlas names and that are gone, cut or not its own: their shards are taken back, so that the run goes on with them."""

import re
from collections.abc import Sequence
from pathlib import Path

import duckdb

from ingest.store.transaction import transaction
from ingest.text.survey import Span
from schema.key_files import file_sha256

FILES = "SELECT f.first_position_id, f.name, f.sha256 FROM key_file AS f WHERE f.corpus_id = ? ORDER BY f.first_position_id"


DRAFT = re.compile(r"\.\d+\.parquet\.\d+\.tmp")
"""What ingest/recorders/key_entries.py calls a file that it writes."""


def remove_drafts(folder: Path) -> None:
    """Remove what processes that were killed had begun to write."""
    for path in folder.glob(".*.tmp"):
        if DRAFT.fullmatch(path.name):
            path.unlink(missing_ok=True)


def reset_lost_shards(con: duckdb.DuckDBPyConnection, folder: Path, corpus_id: int, run_id: int, spans: Sequence[Span]) -> None:
    """Take the shards of lost files out of a run of a corpus, which then runs again. folder: of the files. Every file is read once."""
    files = con.execute(FILES, [corpus_id]).fetchall()
    lost = [first for first, name, sha256 in files if not (folder / name).is_file() or file_sha256(folder / name) != sha256]
    if not lost:
        return
    with transaction(con):
        for first in lost:
            shard_id = next(span.shard_id for span in spans if span.first_position_id <= first < span.first_position_id + span.n_positions)
            con.execute("DELETE FROM key_file WHERE corpus_id = ? AND first_position_id = ?", [corpus_id, first])
            con.execute("DELETE FROM shard WHERE run_id = ? AND shard_id = ?", [run_id, shard_id])
        con.execute("UPDATE run SET status = 'running', finished_at = NULL WHERE run_id = ?", [run_id])
