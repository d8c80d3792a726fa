"""Load shards and publish them as an ingest does, in a process of its own, and measure it."""

import multiprocessing
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb

from ingest.store.load import load_shard
from ingest.store.register import insert_row
from ingest.store.shards import Folder, read_shard
from ingest.store.snapshot import publish
from ingest.store.work_file import open_work_file
from schema import SCHEMA_VERSION
from tests.scale.shapes import Shape, Sweep
from tests.scale.synthetic import SWEEP, WEIGHTS

MODEL = {
    "name": "synthetic", "revision": "0", "model_type": "llama", "n_heads": 1, "n_kv_heads": 1, "d_head": 16, "activation": "silu", "is_gated": True,
    "is_parallel": False, "is_ffn_output_normed": False, "is_tied": True, "dtype": "float32", "weights_sha256": "0", "schema_version": SCHEMA_VERSION,
}  # fmt: skip


@dataclass(frozen=True)
class Load:
    """One shard: rows of each table, bytes of its files, processor seconds to load and remove it."""

    n_rows: dict[str, int]
    n_bytes: int
    seconds: float


@dataclass(frozen=True)
class Loaded:
    """What loading and publishing took: processor seconds, bytes of the two files."""

    loads: list[Load]
    publish_seconds: float
    work_bytes: int
    published_bytes: int
    published_rows: dict[str, int]


def load_and_publish(folder: Path, shape: Shape, sweep: Sweep) -> Loaded:
    """Load the shards staged in `folder`/shards, in order, into `folder`/simulated.duckdb.work, and publish `folder`/simulated.duckdb."""
    # torch's threads, which made the shards, would be in a fork
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (folder, shape, sweep))


def measured(folder: Path, shape: Shape, sweep: Sweep) -> Loaded:
    target, work = folder / "simulated.duckdb", folder / "simulated.duckdb.work"
    work.mkdir()
    with closing(open_work_file(target, work, shape.d_model)) as con:
        # a spawned process is taken for a notebook, which has one
        con.execute("SET enable_progress_bar = false")
        register(con, shape, sweep)
        loads, staging = [], Folder(folder / "shards")
        for path in sorted((folder / "shards").iterdir()):
            shard, n_bytes = read_shard(path), sum(file.stat().st_size for file in path.iterdir())
            start = time.process_time()
            load_shard(con, shard)
            staging.discard(shard)
            loads.append(Load(shard.n_rows, n_bytes, time.process_time() - start))
        start = time.process_time()
        publish(con, target, work)
        publish_seconds = time.process_time() - start
        con.execute("CHECKPOINT")
        con.execute(f"ATTACH '{target}' AS published (READ_ONLY)")
        rows = {t: con.execute(f"SELECT count(*) FROM published.{t}").fetchall()[0][0] for t in ("document", "sequence", *loads[0].n_rows, *loads[-1].n_rows)}
    return Loaded(loads, publish_seconds, (work / "atlas.duckdb").stat().st_size, target.stat().st_size, rows)


def register(con: duckdb.DuckDBPyConnection, shape: Shape, sweep: Sweep) -> None:
    """The rows that say what the shards are of."""
    sizes = {"n_layers": shape.n_layers, "d_model": shape.d_model, "d_ffn": shape.d_ffn, "d_vocab": shape.d_vocab}
    insert_row(con, "model", {**MODEL, **sizes})
    corpus = {"corpus_id": 0, "name": "synthetic", "split": "all", "source": "{}", "sha256": "0"}
    insert_row(con, "corpus", {**corpus, "n_documents": 0, "n_positions": sweep.n_positions})
    for run_id, kind, n_shards in ((WEIGHTS, "weights", shape.n_layers), (SWEEP, "sweep", sweep.n_shards)):
        run = {"run_id": run_id, "kind": kind, "corpus_id": 0, "versions": "{}", "seed": 0, "device": "cpu", "n_shards": n_shards, "status": "running"}
        insert_row(con, "run", {**run, "settings": f'{{"triggers": {sweep.k}}}', "started_at": "2026-11-22"})
