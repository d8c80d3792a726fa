"""The rules that collections keep: those that their tables say of themselves, and those in audits/."""

from collections.abc import Iterator
from pathlib import Path

import duckdb

from schema.audits import Finding, run_audit
from schema.collections.tables import collection_metadata
from schema.metadata_audits import Audit, metadata_audits
from schema.open.kinds import read_folder
from schema.terms import COLLECTION_CATALOG


def sql_audits() -> list[Audit]:
    folder = read_folder(Path(__file__).parent / "audits")
    written = [Audit(f"{COLLECTION_CATALOG}: {name}", sql.splitlines()[0].removeprefix("-- rule: "), sql) for name, sql in folder.items()]
    # what lies within the model's sizes members_exist says, of members that were added from this model: others are of a model that may be larger
    of_tables = [audit for audit in metadata_audits(collection_metadata()) if not audit.name.endswith(": range")]
    return [*of_tables, *written]


def findings(con: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """What comes of every rule. Raises AtlasError if one cannot be looked at."""
    for audit in sql_audits():
        yield run_audit(con, audit)
