"""Provenance of a table: enough to make the table again, or to name its source in a paper."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Collection
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import duckdb

from atlas.cursors import fetch_rows
from atlas.export.cells import plain_rows
from atlas.frames import fetch
from atlas.reads import relations_of_statement, with_theirs
from schema.errors import AtlasError

PACKAGES = ("activation-atlas", "duckdb", "polars")

MODEL = "SELECT m.name, m.revision, m.model_type, m.dtype, m.weights_sha256, m.schema_version FROM model AS m"
CORPORA = "SELECT c.corpus_id, c.name, c.split, c.revision, c.sha256 FROM corpus AS c WHERE $corpus IS NULL OR c.corpus_id = $corpus ORDER BY c.corpus_id"
RUNS = """
SELECT
    r.run_id,
    r.kind,
    r.corpus_id,
    r.settings,
    r.seed,
    r.device,
    r.versions,
    r.finished_at,
    (SELECT flatten(list(json_keys(s.n_rows))) FROM shard AS s WHERE s.run_id = r.run_id) AS filled
FROM run AS r
WHERE $corpus IS NULL OR r.corpus_id IS NULL OR r.corpus_id = $corpus
ORDER BY r.run_id
"""
"""filled: the tables to which the run's shards added rows."""

MANIFEST = """
SELECT r.run_id, r.kind, r.corpus_id, r.settings, r.seed, s.shard_id, s.sha256
FROM run AS r
LEFT JOIN shard AS s ON r.run_id = s.run_id
ORDER BY r.run_id, s.shard_id
"""


def provenance(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    *,
    sql: str,
    n_rows: int,
    question: str | None = None,
    parameters: dict[str, object] | None = None,
    kinds: Collection[str] | None = None,
    packages: Collection[str] = (),
) -> dict[str, object]:
    """Describe where rows come from: atlas, model, corpora, runs, SQL, parameters, number of rows, versions of this package, its libraries and `packages`.

    The runs are those that filled the tables which the question or the SQL reads, or all runs if DuckDB cannot tell which tables these are.
    kinds: the kinds of run that the rows depend on, if the caller knows them. The time is SOURCE_DATE_EPOCH if that is set.
    """
    model = plain_rows(fetch(con, MODEL))
    corpus = (parameters or {}).get("corpus")
    read = None if kinds else with_theirs({question}) if question else relations_of_statement(con, sql)
    return {
        "atlas": path.name,
        "model": model[0] if model else None,
        "corpora": plain_rows(fetch(con, CORPORA, {"corpus": corpus})),
        "manifest_sha256": manifest_sha256(con),
        "runs": runs(con, corpus, kinds, read),
        "question": question,
        "parameters": parameters or {},
        "sql": sql,
        "n_rows": n_rows,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in (*PACKAGES, *packages)}},
        "commit": commit(Path(__file__).parents[2]),
        "created": creation_time().isoformat(timespec="seconds"),
    }


def manifest_sha256(con: duckdb.DuckDBPyConnection) -> str:
    """Compute the SHA-256 over the digests of the weights, the corpora and every shard, with each run's kind, corpus, settings and seed, as JSON.

    Two atlases with the same digest hold the same data. It is not a digest of the file, which DuckDB writes differently each time.
    """
    queries = ("SELECT m.weights_sha256, m.dtype FROM model AS m", "SELECT c.corpus_id, c.sha256 FROM corpus AS c ORDER BY c.corpus_id", MANIFEST)
    return hashlib.sha256(json.dumps([fetch_rows(con, sql) for sql in queries]).encode()).hexdigest()


def runs(con: duckdb.DuckDBPyConnection, corpus: object, kinds: Collection[str] | None, read: set[str] | None) -> list[dict[str, object]]:
    """List the runs of `kinds` that filled one of the tables `read`, over `corpus` or over no corpus, with settings and versions parsed.

    None, for any of the three, sets no condition.
    """
    found = []
    for row in plain_rows(fetch(con, RUNS, {"corpus": corpus})):
        filled = row.pop("filled") or []
        if (kinds is None or row["kind"] in kinds) and (read is None or read.intersection(filled)):  # type: ignore[arg-type]
            found.append({**row, **{key: json.loads(str(row[key])) for key in ("settings", "versions")}})
    return found


@cache
def commit(root: Path) -> str | None:
    """Read the commit that the checkout `root` is at, with '-dirty' if files differ from it; None for an installed package."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def creation_time() -> datetime:
    """Return the time that SOURCE_DATE_EPOCH is set to, else now. Raises AtlasError if its value is not a time."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        return datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise AtlasError(f"SOURCE_DATE_EPOCH is {epoch!r}, and not a number of seconds since 1970; unset it, or set it to a whole number") from error
