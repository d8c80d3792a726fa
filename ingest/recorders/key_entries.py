"""The keys of a text, recorded while the text is read: for every position that a token follows, the state that the last FFN reads, and that token.

Source: Khandelwal et al. 2020, section 2: a key is the context's representation, its value the token that follows. The site is the best of their table 5.

If a file of keys that the atlas lists is missing or has other content, its shard is removed from the run, and is then recorded again.
"""

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ingest.model.hooks import KEY, LayerRecord
from ingest.model.models import Model
from ingest.recorders.base import Batch, ResumableRecorder
from ingest.recorders.plans import Basis, CostSample, Recording, Text, Work
from ingest.store.register import find_run
from ingest.store.transaction import transaction
from ingest.text.survey import Span
from ingest.workers.worker import Progress, Tables, Worker
from schema.durable import put_in_place
from schema.errors import AtlasError
from schema.key_files import KEY_DTYPE, KEY_SITE, file_sha256, keys_folder

FILES = "SELECT f.first_position_id, f.name, f.sha256 FROM key_file AS f WHERE f.corpus_id = ? ORDER BY f.first_position_id"

DRAFT = re.compile(r"\.\d+\.parquet\.\d+\.tmp")
"""Pattern of the name of a file of keys that is still being written (`draft_of`)."""

ROW_GROUP_BYTES = 2**23
"""Bytes of the keys in a row group of a file; a reader of the file has one row group in memory at a time."""


class KeyRecorder(ResumableRecorder):
    """Recorder of the keys of a shard, which are written to `folder`.

    found: maps the first position_id of a forward pass to position_ids, document_ids, next_token_ids and keys.
    """

    sites = frozenset({KEY})
    held = ("found",)

    def __init__(self, model: Model, folder: Path, corpus_id: int, min_index: int) -> None:
        self.model, self.folder, self.corpus_id, self.min_index = model, folder, corpus_id, min_index
        self.found: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {}
        self.batch: Batch | None = None

    def begin(self, batch: Batch) -> None:
        self.batch = batch

    def take(self, layer: int, record: LayerRecord) -> None:
        if layer < self.model.n_layers - 1 or self.batch is None:
            return
        batch = self.batch
        kept = np.flatnonzero((batch.position_ids >= 0) & (batch.next_token_ids >= 0) & (batch.indices >= self.min_index))
        states = record[KEY]
        keys = states[torch.from_numpy(kept).to(states.device)].to(torch.float16).cpu().numpy()
        ids = batch.position_ids[kept]
        if len(unfit := np.flatnonzero(~np.isfinite(keys).all(1))):
            raise AtlasError(
                f"--keys: the state that the last FFN of {self.model.name} reads at position {ids[unfit[0]]} does not fit in float16, whose largest number "
                "is 65,504; keys of this model cannot be stored"
            )
        # by the first position: what ran out of memory at its very end comes again under the same
        self.found[int(batch.position_ids[0])] = ids, documents(batch)[kept], batch.next_token_ids[kept].astype(np.int32), keys

    def tables(self, _: Progress) -> Tables:
        """Write the file of the shard's keys and build its row of `key_file`; a shard without entries has neither."""
        if not any(len(ids) for ids, *_ in self.found.values()):
            return {}
        ids, document_ids, following, keys = (np.concatenate(column) for column in zip(*self.found.values(), strict=True))
        order = np.argsort(ids)
        first, last = (int(ids[order[end]]) for end in (0, -1))
        path = self.folder / f"{first}.parquet"
        write_keys(path, ids[order], document_ids[order], following[order], keys[order])
        row = {
            "corpus_id": self.corpus_id, "first_position_id": first, "last_position_id": last, "name": path.name, "key_site": KEY_SITE,
            "layer": self.model.n_layers - 1, "min_index": self.min_index, "dtype": KEY_DTYPE, "n_entries": len(ids), "n_bytes": path.stat().st_size,
            "sha256": file_sha256(path),
        }  # fmt: skip
        return {"key_file": pa.Table.from_pylist([row])}


def documents(batch: Batch) -> np.ndarray:
    """Return the document_id of each row, [rows]; a row of padding has the document_id of the sequence before it."""
    return np.repeat([s.document_id for s in batch.sequences], len(batch.position_ids) // len(batch.sequences))


def write_keys(path: Path, ids: np.ndarray, document_ids: np.ndarray, following: np.ndarray, keys: np.ndarray) -> None:
    """Write a file of entries atomically: it exists whole or not at all. keys: [n, d_model] float16; the other arrays: [n]."""
    path.parent.mkdir(exist_ok=True)
    width = keys.shape[1]
    column = pa.FixedSizeListArray.from_arrays(pa.array(keys.ravel()), width)
    table = pa.table({"position_id": ids, "document_id": document_ids, "next_token_id": following, "key": column})
    draft = draft_of(path)
    pq.write_table(
        table, draft, compression="none", use_dictionary=False, write_statistics=["position_id"], row_group_size=max(1, ROW_GROUP_BYTES // (2 * width))
    )
    put_in_place(draft, path)


def draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


class Keys(Work):
    """Plans and costs of the pass `keys`."""

    def recording(self, basis: Basis, text: Text) -> Recording:
        request = basis.request
        settings = {**request.weights_settings(), "batch_size": request.batch_size, "shard_positions": request.shard_positions}
        settings |= {"key_site": KEY_SITE, "min_index": request.options["min_index"]}
        folder = keys_folder(request.target).resolve()
        remove_drafts(folder)
        if (run_id := find_run(basis.con, "keys", text.corpus_id, settings)) is not None:
            reset_lost_shards(basis.con, folder, text.corpus_id, run_id, text.seen.spans)
        of = {"folder": folder, "corpus_id": text.corpus_id, "min_index": request.options["min_index"]}
        return Recording(settings, lambda _: partial(key_recorder, **of))

    def rows(self, sample: CostSample) -> dict[str, int]:
        return {"key_file": len(sample.seen.spans)} if sample.seen else {}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time of the forward passes; 0 if a sweep makes them anyway, since recording adds only a copy."""
        if sample.seen is None or sample.request.is_sweep_wanted:
            return 0.0
        return sample.token_seconds() * sample.seen.n_positions

    def n_bytes(self, sample: CostSample) -> int:
        """Count the bytes of the largest shard's keys twice: as recorded, and as a sorted copy."""
        return max((2 * 2 * span.n_positions * sample.model.d_model for span in sample.seen.spans), default=0) if sample.seen else 0


def key_recorder(worker: Worker, folder: Path, corpus_id: int, min_index: int) -> KeyRecorder:
    return KeyRecorder(worker.model, folder, corpus_id, min_index)


def remove_drafts(folder: Path) -> None:
    """Remove unfinished files of processes that were killed."""
    for path in folder.glob(".*.tmp"):
        if DRAFT.fullmatch(path.name):
            path.unlink(missing_ok=True)


def reset_lost_shards(con: duckdb.DuckDBPyConnection, folder: Path, corpus_id: int, run_id: int, spans: Sequence[Span]) -> None:
    """Remove from a run the shards whose files are lost; if any were, mark the run as running again.

    A file is lost if it is missing, or if its SHA-256 is not the one in `key_file`; every file is read once. folder: where the files are.
    """
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
