"""A lake over a file: a shard on its way into each, and questions to each. PostgreSQL and the S3 endpoint run on the same processors."""

import os
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb

import atlas
from ingest.store.lake.store import opened_lake
from ingest.store.load import load_shard
from ingest.store.shards import write_shard
from schema.build import create_tables
from schema.open.lake import Lake
from schema.open.store import open_writer
from tests.lake.pushed import push
from tests.lake.servers import serving

QUESTIONS = ("top_triggers(3, 17)", "value_tokens(3, 17)", "layer_summary(0)", "neurons_promoting(' people')")
TIMES = 5


def bench_lake(folder: Path, db: Path) -> None:
    with serving(folder) as servers:
        os.environ |= servers.environment
        path = push(db, folder / "demo.lake", Lake(servers.catalogue("demo"), servers.data("demo")))
        with closing(duckdb.connect(str(db), read_only=True)) as con:
            triggers = con.execute("FROM trigger").to_arrow_table()
            d_model = con.execute("SELECT d_model FROM model").fetchall()[0][0]
        with closing(open_writer(folder / "file.duckdb")) as con, opened_lake(path) as lake:
            create_tables(con, d_model)
            into_file = median(lambda i: load_shard(con, write_shard(folder / "shards", 9, i, {"trigger": triggers})))
            into_lake = median(lambda i: lake.load(lake.staging.write(0, 9, i, {"trigger": triggers})))
        print(f"    {triggers.num_rows:,} triggers written and loaded in {into_file:.2f} s (file), {into_lake:.2f} s (lake)")
        print(f"    lake over file               {into_lake / into_file:10.2f}")
        with atlas.open(db) as a, atlas.open(path) as b:
            for question in QUESTIONS:
                asked = [median(lambda _, x=x, question=question: x.sql(f"SELECT * FROM {question}")) for x in (a, b)]
                print(f"    {question:<28} {1e3 * asked[0]:8.1f} ms (file) {1e3 * asked[1]:8.1f} ms (lake)")


def median(action: Callable[[int], object]) -> float:
    """Seconds of the middle one of some calls; each gets its number."""
    taken = []
    for i in range(TIMES):
        start = time.monotonic()
        action(i)
        taken.append(time.monotonic() - start)
    return statistics.median(taken)
