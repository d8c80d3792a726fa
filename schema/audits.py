"""Audits: queries that select rows which break a rule. An atlas that keeps every rule gives no rows.

Uniqueness, references and missing values follow from the metadata (`Table.info["grain"]`, `Column.info["references"]`, `nullable`);
what a table cannot say of itself is one file each in schema/audits/.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

import duckdb
from sqlalchemy import Column, MetaData, Table

from schema.errors import AtlasError
from schema.interruptible import interruptible
from schema.release import question_files, view_files
from schema.tables import metadata


@dataclass(frozen=True)
class Audit:
    """`sql` selects the rows that break `rule`."""

    name: str
    rule: str
    sql: str


@dataclass(frozen=True)
class Finding:
    """How many rows break the rule, and the first of them by column name (None if there is none)."""

    audit: Audit
    n_rows: int
    example: dict[str, object] | None


def grain_audit(table: Table) -> Audit:
    """No two rows of the same grain; a table without grain columns has at most one row."""
    grain = table.info["grain"]
    columns = ", ".join(f"t.{c}" for c in grain)
    sql = (
        f"SELECT {columns}, count(*) AS n_rows FROM {table.name} AS t GROUP BY {columns} HAVING count(*) > 1"
        if grain
        else f"SELECT count(*) AS n_rows FROM {table.name} AS t HAVING count(*) > 1"
    )
    return Audit(f"{table.name}: grain", f"one row per {', '.join(grain) or 'atlas'}", sql)


def reference_audit(column: Column) -> Audit:
    """Every value is found in the column it refers to; null refers to nothing."""
    target, key = column.info["references"].split(".")
    sql = (
        f"SELECT t.{column.name}, count(*) AS n_rows FROM {column.table.name} AS t "
        f"WHERE t.{column.name} IS NOT NULL AND t.{column.name} NOT IN (SELECT r.{key} FROM {target} AS r) GROUP BY t.{column.name}"
    )
    return Audit(f"{column.table.name}.{column.name}: reference", f"every value is in {column.info['references']}", sql)


def null_audit(table: Table) -> Audit:
    """No nulls where the metadata allows none."""
    required = [c.name for c in table.columns if not c.nullable]
    nulls = " OR ".join(f't."{name}" IS NULL' for name in required)
    return Audit(f"{table.name}: not null", f"no null in {', '.join(required)}", f"SELECT t.* FROM {table.name} AS t WHERE {nulls}")


def layer_audit(table: Table) -> Audit:
    """Layers and neurons are those of the model."""
    conditions = ["t.layer NOT BETWEEN 0 AND m.n_layers - 1"] + (["t.neuron NOT BETWEEN 0 AND m.d_ffn - 1"] if "neuron" in table.columns else [])
    sql = f"SELECT t.* FROM {table.name} AS t CROSS JOIN model AS m WHERE {' OR '.join(conditions)}"
    return Audit(f"{table.name}: range", "layers and neurons are those of the model", sql)


def metadata_audits(tables: MetaData) -> Iterator[Audit]:
    """What follows from the metadata of each table."""
    for table in tables.tables.values():
        yield grain_audit(table)
        yield null_audit(table)
        if "layer" in table.columns:
            yield layer_audit(table)
        yield from (reference_audit(c) for c in table.columns if "references" in c.info)


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
    d_model = max((d for (d,) in con.execute("SELECT d_model FROM model").fetchall()), default=1)
    for audit in audits(d_model):
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
