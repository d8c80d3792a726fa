"""Audits: queries that select rows which break a rule. An atlas that keeps every rule gives no rows.

Most follow from the metadata (schema/metadata_audits.py); what a table cannot say of itself is one file each in schema/audits/.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

import duckdb

from schema.errors import AtlasError
from schema.interruptible import interruptible
from schema.metadata_audits import Audit, metadata_audits
from schema.older import width
from schema.release import question_files, view_files
from schema.tables import metadata


@dataclass(frozen=True)
class Finding:
    """How many rows break the rule, and the first of them by column name (None if there is none)."""

    audit: Audit
    n_rows: int
    example: dict[str, object] | None


def derived_audits() -> Iterator[Audit]:
    """Every view and question of this version is in the file."""
    for kind, names, catalog in (
        ("view", view_files(), "SELECT v.view_name FROM duckdb_views() AS v WHERE v.database_name = current_database()"),
        ("question", question_files(), "SELECT f.function_name FROM duckdb_functions() AS f WHERE f.database_name = current_database()"),
    ):
        values = ", ".join(f"('{name}')" for name in names)
        sql = f"SELECT w.name FROM (VALUES {values}) AS w (name) WHERE w.name NOT IN ({catalog})"
        yield Audit(f"{kind}s: present", f"every {kind} of this version is in the file", sql)


def file_audits() -> Iterator[Audit]:
    """One audit for each file of schema/audits; the first line of a file is its rule."""
    folder = files("schema") / "audits"
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if file.name.endswith(".sql"):
            sql = file.read_text(encoding="utf-8")
            yield Audit(file.name.removesuffix(".sql"), sql.splitlines()[0].removeprefix("-- rule: "), sql)


def audits(d_model: int) -> list[Audit]:
    """Every audit of an atlas whose residual stream is `d_model` wide."""
    return [*metadata_audits(metadata(d_model)), *file_audits(), *derived_audits()]


def run_audits(con: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Run every audit, one at a time, on the connection's current database. Raises AtlasError if one cannot run."""
    for audit in audits(width(con, "model") or 1):
        yield run_audit(con, audit)


def run_audit(con: duckdb.DuckDBPyConnection, audit: Audit) -> Finding:
    sql = f"SELECT count(*) OVER () AS n_bad_rows, b.* FROM (\n{audit.sql.rstrip().removesuffix(';')}\n) AS b LIMIT 1"
    cursor = con.cursor()
    try:
        rows = interruptible(cursor, lambda: cursor.execute(sql).fetchall())
        names = [d[0] for d in cursor.description or []]
    except duckdb.Error as error:
        raise AtlasError(f"the audit '{audit.name}' cannot run: {str(error).splitlines()[0]}") from error
    finally:
        cursor.close()
    return Finding(audit, rows[0][0], dict(zip(names[1:], rows[0][1:], strict=True))) if rows else Finding(audit, 0, None)
