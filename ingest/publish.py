"""Publish a snapshot: a new file with every table merged and sorted, checked by a full scan, put in place by one rename.

The committer's file only ever grows: triggers and statistics lie in it as the shards brought them. A snapshot is written
afresh from it, so it is compact, sorted for its queries, has no write-ahead log, and readers of the old one are not disturbed.
"""

from pathlib import Path

import duckdb

from ingest.shards import fsync
from schema.build import create_tables, install_derived
from schema.errors import AtlasError
from schema.store import STORAGE_VERSION

TRIGGER_MERGE = """
SELECT t.corpus_id, t.layer, t.neuron, t.tail, t.new_rank AS rank, t.position_id, t.coefficient
FROM (
    SELECT
        t.*,
        row_number() OVER (
            PARTITION BY t.corpus_id, t.layer, t.neuron, t.tail
            ORDER BY CASE t.tail WHEN 'max' THEN -t.coefficient ELSE t.coefficient END, t.position_id
        ) AS new_rank
    FROM work.trigger AS t
) AS t
INNER JOIN trigger_count AS k ON t.corpus_id = k.corpus_id
WHERE t.new_rank <= k.k
"""
"""Exact top-k of a corpus out of the shards' candidates. Ties go to the smaller position_id."""

STATISTICS_MERGE = """
WITH part AS (
    SELECT s.*, count(*) OVER (PARTITION BY s.corpus_id, s.layer, s.neuron) AS n_parts
    FROM work.neuron_statistics AS s
),
whole AS (
    SELECT
        s.corpus_id, s.layer, s.neuron,
        CASE s.n_parts WHEN 1 THEN any_value(s.mean)
            ELSE list_sum(list(s.n_positions * s.mean ORDER BY s.n_positions, s.mean, s.std)) / sum(s.n_positions) END AS mean
    FROM part AS s
    GROUP BY s.corpus_id, s.layer, s.neuron, s.n_parts
),
bins AS (
    SELECT b.corpus_id, b.layer, b.neuron, list(b.n ORDER BY b.bin) AS histogram
    FROM (
        SELECT s.corpus_id, s.layer, s.neuron, s.bin, sum(s.n)::BIGINT AS n
        FROM (
            SELECT
                p.corpus_id, p.layer, p.neuron,
                unnest(p.histogram) AS n,
                unnest(range(len(p.histogram))) AS bin
            FROM work.neuron_statistics AS p
        ) AS s
        GROUP BY ALL
    ) AS b
    GROUP BY ALL
),
merged AS (
    SELECT
        s.corpus_id, s.layer, s.neuron,
        sum(s.n_positions)::BIGINT AS n_positions,
        sum(s.n_active)::BIGINT AS n_active,
        w.mean,
        CASE s.n_parts WHEN 1 THEN any_value(s.std)
            ELSE sqrt(
                list_sum(list(s.n_positions * (s.std * s.std + (s.mean - w.mean) ** 2) ORDER BY s.n_positions, s.mean, s.std)) / sum(s.n_positions)
            ) END AS std,
        min(s.min) AS min,
        max(s.max) AS max
    FROM part AS s
    INNER JOIN whole AS w ON s.corpus_id = w.corpus_id AND s.layer = w.layer AND s.neuron = w.neuron
    GROUP BY s.corpus_id, s.layer, s.neuron, s.n_parts, w.mean
)
SELECT m.*, b.histogram
FROM merged AS m
INNER JOIN bins AS b ON m.corpus_id = b.corpus_id AND m.layer = b.layer AND m.neuron = b.neuron
"""
"""Moments of the whole from the moments of its parts (Chan et al. 1979); histograms add up.

Sums go in an order that the parts alone decide, so the result is the same to the bit whatever order they were loaded in.
"""

MERGES = {"trigger": TRIGGER_MERGE, "neuron_statistics": STATISTICS_MERGE}


def publish(con: duckdb.DuckDBPyConnection, target: Path, work: Path) -> None:
    """Write the committer's state to `target` as a complete atlas. `con` has the committer's file as its current database."""
    draft = work / "snapshot.tmp"
    draft.unlink(missing_ok=True)
    Path(f"{draft}.wal").unlink(missing_ok=True)
    name = con.execute("SELECT current_database()").fetchall()[0][0]
    d_model = con.execute("SELECT d_model FROM model").fetchall()[0][0]
    con.execute(f"ATTACH '{quoted(draft)}' AS snapshot (STORAGE_VERSION '{STORAGE_VERSION}')")
    con.execute("USE snapshot")
    write_snapshot(con, name, d_model)
    con.execute("CHECKPOINT snapshot")
    con.execute(f"USE {name}")
    con.execute("DETACH snapshot")
    check_snapshot(con, draft)
    fsync(draft)
    draft.rename(target)
    fsync(target.parent.resolve())


def write_snapshot(con: duckdb.DuckDBPyConnection, source: str, d_model: int) -> None:
    """Create every table in the current database and fill it, sorted, from the database `source`."""
    tables = create_tables(con, d_model)
    con.execute(
        f"""CREATE TEMP TABLE trigger_count AS
        SELECT r.corpus_id, max((r.settings ->> 'triggers')::INTEGER) AS k FROM {source}.run AS r WHERE r.kind = 'sweep' GROUP BY ALL"""
    )
    for table in tables.tables.values():
        select = MERGES.get(table.name, "SELECT * FROM work." + table.name).replace("work.", f"{source}.")
        order = ", ".join(table.info["sort"])
        con.execute(f"INSERT INTO {table.name} BY NAME FROM ({select})" + (f" ORDER BY {order}" if order else ""))
    con.execute("DROP TABLE trigger_count")
    install_derived(con)


def check_snapshot(con: duckdb.DuckDBPyConnection, draft: Path) -> None:
    """Read every value of the new file back; raise AtlasError if a log is left or a table cannot be read."""
    if Path(f"{draft}.wal").exists():
        raise AtlasError(f"{draft} still has a write-ahead log after its checkpoint; it was not published")
    con.execute(f"ATTACH '{quoted(draft)}' AS check_snapshot (READ_ONLY)")
    try:
        names = con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'check_snapshot'").fetchall()
        for (name,) in names:
            con.execute(f"SELECT bit_xor(hash(t)) FROM check_snapshot.{name} AS t").fetchall()
    except duckdb.Error as error:
        raise AtlasError(f"the new snapshot {draft} does not read back and was not published: {str(error).splitlines()[0]}") from error
    finally:
        con.execute("DETACH check_snapshot")


def quoted(path: Path) -> str:
    return str(path).replace("'", "''")
