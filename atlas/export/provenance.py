"""Where a table comes from: enough to make it again, or to say in a paper what it is of."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import duckdb

from atlas.export.cells import plain_rows
from atlas.frames import fetch

PACKAGES = ("activation-atlas", "duckdb", "polars")

MODEL = "SELECT m.name, m.revision, m.model_type, m.dtype, m.weights_sha256, m.schema_version FROM model AS m"
CORPORA = "SELECT c.corpus_id, c.name, c.split, c.revision, c.sha256 FROM corpus AS c ORDER BY c.corpus_id"


def provenance(
    con: duckdb.DuckDBPyConnection, path: Path, *, sql: str, n_rows: int, question: str | None = None, parameters: dict[str, object] | None = None
) -> dict[str, object]:
    """Atlas, model, corpora, the SQL with its parameters, rows and versions. The time is SOURCE_DATE_EPOCH where that is set."""
    model = plain_rows(fetch(con, MODEL))
    return {
        "atlas": path.name,
        "model": model[0] if model else None,
        "corpora": plain_rows(fetch(con, CORPORA)),
        "question": question,
        "parameters": parameters or {},
        "sql": sql,
        "n_rows": n_rows,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        "created": created().isoformat(timespec="seconds"),
    }


def created() -> datetime:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
