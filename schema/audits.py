"""Audits: queries that select rows which break a rule. An atlas that keeps every rule gives no rows.

Most audits follow from the metadata (schema/metadata_audits.py). Each rule that a table's metadata cannot express is one file in schema/audits/.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import duckdb
from sqlalchemy import REAL, Column, Double, MetaData, Table
from sqlalchemy.types import NullType

from schema.build import create_tables
from schema.columns import ROUNDING
from schema.damage import describe_damage
from schema.errors import AtlasError
from schema.interruptible import interruptible
from schema.metadata_audits import RANGE, Audit, metadata_audits
from schema.open.companion import attach_blank
from schema.open.kinds import Companion, read_folder, read_headers
from schema.open.older import read_d_model
from schema.open.store import open_writer
from schema.release import question_files, view_files
from schema.tables import metadata

OWN = "c.database_name = current_database() AND c.schema_name = 'main'"


@dataclass(frozen=True)
class Finding:
    """Result of an audit: the number of rows that break the rule, and one of these rows as column → value (None if there is none)."""

    audit: Audit
    n_rows: int
    example: dict[str, object] | None


def derived_audits() -> Iterator[Audit]:
    """Yield two audits, which check that every view and every question of this version is in the file."""
    for kind, names, catalog in (
        ("view", view_files(), "SELECT v.view_name FROM duckdb_views() AS v WHERE v.database_name = current_database()"),
        ("question", question_files(), "SELECT f.function_name FROM duckdb_functions() AS f WHERE f.database_name = current_database()"),
    ):
        values = ", ".join(f"('{name}')" for name in names)
        sql = f"SELECT w.name FROM (VALUES {values}) AS w (name) WHERE w.name NOT IN ({catalog})"
        yield Audit(f"{kind}s: present", f"every {kind} of this version is in the file", sql)


@cache
def column_audit(d_model: int) -> Audit:
    """Build the audit that checks that every column of this version is in the file with its type. Otherwise a question would fail or answer wrongly."""
    with closing(open_writer(":memory:")) as con:
        create_tables(con, d_model)
        # under the names that DuckDB itself gives types
        columns = con.execute(f"SELECT c.table_name, c.column_name, c.data_type FROM duckdb_columns() AS c WHERE {OWN} ORDER BY ALL").fetchall()
    values = ", ".join(f"('{table}', '{column}', '{kind}')" for table, column, kind in columns)
    sql = f"""
        SELECT w.table_name, w.column_name, w.data_type, c.data_type AS found
        FROM (VALUES {values}) AS w (table_name, column_name, data_type)
        LEFT JOIN duckdb_columns() AS c ON w.table_name = c.table_name AND w.column_name = c.column_name AND {OWN}
        WHERE c.data_type IS DISTINCT FROM w.data_type
            -- how long a vector is, the model says
            AND (EXISTS (FROM model) OR regexp_replace(c.data_type, '\\d+', '') IS DISTINCT FROM regexp_replace(w.data_type, '\\d+', ''))
    """
    return Audit("columns: types", "every column of this version is in the file, with its type", sql)


def file_audits() -> Iterator[Audit]:
    """Yield one audit for each file of schema/audits; the first line of a file is its rule."""
    folder = files("schema") / "audits"
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if file.name.endswith(".sql"):
            sql = file.read_text(encoding="utf-8")
            yield Audit(file.name.removesuffix(".sql"), sql.splitlines()[0].removeprefix("-- rule: "), sql)


def audits(d_model: int) -> list[Audit]:
    """List every audit of an atlas whose residual stream is `d_model` wide."""
    return [column_audit(d_model), *metadata_audits(metadata(d_model)), *file_audits(), *derived_audits()]


NUMBERS = {"FLOAT": REAL, "DOUBLE": Double}
"""DuckDB's name of each type whose values must be finite → SQLAlchemy's type."""

BOUNDS: dict[str, tuple[float, float | None]] = {"in [0, 1]": (0, 1 + ROUNDING), ">= 0": (-ROUNDING, None)}


@cache
def companion_metadata(kind: Companion) -> MetaData:
    """Read the metadata of a kind's tables, from an empty database of the kind and from the tables' headers.

    A table whose header names no grain is left out: another distribution may have such tables.
    """
    headers = read_headers(kind.tables.read_text(encoding="utf-8"))
    with closing(open_writer(":memory:")) as con:
        attach_blank(con, kind)
        columns = con.execute(
            "SELECT c.table_name, c.column_name, c.data_type, c.is_nullable, c.comment FROM duckdb_columns() AS c "
            "WHERE c.database_name = ? ORDER BY c.table_oid, c.column_index",
            [kind.name],
        ).fetchall()
    m = MetaData(schema=kind.name)
    for name, header in headers.items():
        table = name.partition(".")[2]
        if header.grain is None:
            continue
        made = Table(table, m, comment=header.comment, info={"grain": header.grain, "filled_by": "", "is_merged": False})
        for _, column, stored, is_nullable, comment in (row for row in columns if row[0] == table):
            said = {"references": header.references.get(column), "bounds": BOUNDS.get(header.bounds.get(column, ""))}
            info = {key: value for key, value in said.items() if value is not None}
            made.append_column(Column(column, NUMBERS.get(stored, NullType), nullable=is_nullable, comment=comment, info=info))
    return m


def companion_audits(kind: Companion) -> list[Audit]:
    """List the audits of a kind of file beside an atlas: those that follow from its tables, and those in its folder `audits`.

    To run them, a file of the kind must be attached.
    """
    written = read_folder(kind.folder / "audits").items()
    return [
        *(audit for audit in metadata_audits(companion_metadata(kind)) if kind.is_of_one_model or not audit.name.endswith(RANGE)),
        *(Audit(f"{kind.name}: {name}", sql.splitlines()[0].removeprefix("-- rule: "), sql) for name, sql in written),
    ]


def run_audits(con: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Run every audit, one at a time, on the connection's current database. Raises AtlasError if one cannot run."""
    for audit in audits(read_d_model(con, "model") or 1):
        yield run_audit(con, audit)


def run_audit(con: duckdb.DuckDBPyConnection, audit: Audit) -> Finding:
    # not count(*) OVER (): DuckDB 1.5's threads race for a window over few rows, and one that loses shuts the database (duckdb/duckdb issue 25713)
    bad = f"WITH bad AS MATERIALIZED (\n{audit.sql.rstrip().removesuffix(';')}\n)"
    sql = f"{bad} SELECT (SELECT count(*) FROM bad) AS n_bad_rows, b.* FROM bad AS b LIMIT 1"
    cursor = con.cursor()
    try:
        rows = interruptible(cursor, lambda: cursor.execute(sql).fetchall())
        names = [d[0] for d in cursor.description or []]
    except duckdb.Error as error:
        said = describe_damage(error) or str(error).splitlines()[0]
        raise AtlasError(f"the audit '{audit.name}' cannot run: {said}") from error
    finally:
        cursor.close()
    return Finding(audit, rows[0][0], dict(zip(names[1:], rows[0][1:], strict=True))) if rows else Finding(audit, 0, None)
