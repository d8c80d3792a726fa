"""The data dictionary: type and meaning of every table, view and column, including those in files beside an atlas.

It is read from an open atlas, or built from the metadata alone.
"""

import duckdb
import polars as pl

from atlas.frames import fetch
from atlas.statement import literal
from schema.build import create_tables, install_derived
from schema.open.companion import attach_blank
from schema.open.kinds import kinds
from schema.open.store import open_writer

ANY_WIDTH = 768

COLUMNS = """
SELECT
    if(c.database_name = current_database(), '', c.database_name || '.') || c.table_name AS relation,
    if(v.view_name IS NULL, 'table', 'view') AS kind,
    coalesce(t.comment, v.comment) AS description,
    c.column_name AS column,
    c.data_type AS type,
    c.is_nullable AND v.view_name IS NULL AS is_nullable,
    c.comment AS meaning
FROM duckdb_columns() AS c
LEFT JOIN duckdb_tables() AS t ON c.table_oid = t.table_oid AND c.database_oid = t.database_oid AND c.schema_oid = t.schema_oid
LEFT JOIN duckdb_views() AS v ON c.table_oid = v.view_oid AND c.database_oid = v.database_oid AND c.schema_oid = v.schema_oid
WHERE NOT c.internal AND c.database_name IN (current_database(), {beside})
ORDER BY kind, c.database_name <> current_database(), c.table_oid, c.column_index
"""


def describe(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Describe every column, one row each: relation, kind (table or view), description, column, type, is_nullable, meaning."""
    # without parameters, for which DuckDB imports pandas
    return fetch(con, COLUMNS.format(beside=", ".join(literal(kind.name) for kind in kinds())))


def describe_blank() -> pl.DataFrame:
    """Describe an atlas of any model as `describe` does, without a file."""
    con = open_writer(":memory:")
    create_tables(con, ANY_WIDTH)
    install_derived(con)
    for kind in kinds():
        attach_blank(con, kind)
    try:
        return describe(con).with_columns(pl.col("type").str.replace(f"[{ANY_WIDTH}]", "[d_model]", literal=True))
    finally:
        con.close()


def to_markdown(dictionary: pl.DataFrame) -> str:
    """Format the dictionary as a Markdown page, one section per relation."""
    from atlas.export.markdown import markdown_table

    parts = ["# Data dictionary", ""]
    for (relation, kind, description), columns in dictionary.group_by("relation", "kind", "description", maintain_order=True):
        parts += [f"## {relation} ({kind})", "", str(description), "", markdown_table(columns.select("column", "type", "meaning")), ""]
    return "\n".join(parts)
