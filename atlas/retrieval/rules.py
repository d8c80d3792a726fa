"""The rules that retrievals keep: those that their tables say of themselves, and those in audits/."""

from collections.abc import Iterator
from pathlib import Path

import duckdb

from schema.audits import Finding, run_audit
from schema.metadata_audits import Audit, metadata_audits
from schema.open.kinds import read_folder
from schema.retrieval.tables import retrieval_metadata
from schema.terms import RETRIEVAL_CATALOG


def sql_audits() -> list[Audit]:
    folder = read_folder(Path(__file__).parent / "audits")
    written = [Audit(f"{RETRIEVAL_CATALOG}: {name}", sql.splitlines()[0].removeprefix("-- rule: "), sql) for name, sql in folder.items()]
    return [*metadata_audits(retrieval_metadata()), *written]


def findings(con: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """What comes of every rule. Raises AtlasError if one cannot be looked at."""
    for audit in sql_audits():
        yield run_audit(con, audit)
