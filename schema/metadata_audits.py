"""Audits that follow from the metadata of tables and columns: nobody writes them, so nobody can forget one."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Column, Float, MetaData, Table

from schema.columns import Vector


@dataclass(frozen=True)
class Audit:
    """A rule, and the query `sql`, which selects the rows that break it."""

    name: str
    rule: str
    sql: str


def grain_audit(table: Table) -> Audit:
    """Build the audit that checks that no two rows have the same values in the grain columns. A table without grain columns may have one row."""
    grain = table.info["grain"]
    columns = ", ".join(f"t.{c}" for c in grain)
    sql = (
        f"SELECT {columns}, count(*) AS n_rows FROM {table.fullname} AS t GROUP BY {columns} HAVING count(*) > 1"
        if grain
        else f"SELECT count(*) AS n_rows FROM {table.fullname} AS t HAVING count(*) > 1"
    )
    return Audit(f"{table.fullname}: grain", f"one row per {', '.join(grain) or 'atlas'}", sql)


def reference_audit(column: Column) -> Audit:
    """Build the audit that checks that every value of a column exists in the column that it refers to. Nulls are not checked."""
    target, key = column.info["references"].split(".")
    schema = f"{column.table.schema}." if column.table.schema else ""
    sql = (
        f"SELECT t.{column.name}, count(*) AS n_rows FROM {column.table.fullname} AS t "
        f"WHERE t.{column.name} IS NOT NULL AND t.{column.name} NOT IN (SELECT r.{key} FROM {schema}{target} AS r) GROUP BY t.{column.name}"
    )
    return Audit(f"{column.table.fullname}.{column.name}: reference", f"every value is in {column.info['references']}", sql)


def null_audit(table: Table) -> Audit:
    """Build the audit that checks that columns whose metadata forbids nulls have none."""
    required = [c.name for c in table.columns if not c.nullable]
    nulls = " OR ".join(f't."{name}" IS NULL' for name in required)
    return Audit(f"{table.fullname}: not null", f"no null in {', '.join(required)}", f"SELECT t.* FROM {table.fullname} AS t WHERE {nulls}")


RANGE = ": range"
"""Suffix of the names of audits that check a table against the sizes of the atlas's model."""

SIZES = {"layer": "n_layers", "neuron": "d_ffn", "head": "n_heads"}
"""Column of a table → column of `model` that holds how many layers, neurons or heads the model has."""


def layer_audit(table: Table) -> Audit:
    """Build the audit that checks that every layer, neuron and head is one that the model has."""
    conditions = [f"t.{name} NOT BETWEEN 0 AND m.{size} - 1" for name, size in SIZES.items() if name in table.columns]
    sql = f"SELECT t.* FROM {table.fullname} AS t CROSS JOIN model AS m WHERE {' OR '.join(conditions)}"
    return Audit(f"{table.fullname}{RANGE}", "layers, neurons and heads are those of the model", sql)


def finite_audit(table: Table) -> Audit:
    """Build the audit that checks that every number is finite, also within vectors. Nulls are not checked."""
    numbers = [f't."{c.name}"' for c in table.columns if isinstance(c.type, Float)]
    # the sum of a vector is in float64, which finite float32 numbers cannot overflow
    summed = [f't."{c.name}"::FLOAT[]' for c in table.columns if isinstance(c.type, Vector)]
    wrong = " OR ".join(f"NOT isfinite({number})" for number in [*numbers, *(f"list_sum({vector})" for vector in summed)])
    return Audit(f"{table.fullname}: finite", "no number is NaN or infinite", f"SELECT {select_list(table, numbers)} FROM {table.fullname} AS t WHERE {wrong}")


def bounds_audit(table: Table) -> Audit:
    """Build the audit that checks that every number lies within the bounds of its column. Nulls are not checked."""
    bounded = {f't."{c.name}"': c.info["bounds"] for c in table.columns if "bounds" in c.info}
    wrong = " OR ".join(f"{number} < {low}" + (f" OR {number} > {high}" if high is not None else "") for number, (low, high) in bounded.items())
    rule = "probabilities lie in [0, 1], and what cannot be negative is not"
    return Audit(f"{table.fullname}: bounds", rule, f"SELECT {select_list(table, list(bounded))} FROM {table.fullname} AS t WHERE {wrong}")


def select_list(table: Table, columns: list[str]) -> str:
    """List, as SQL, the columns that identify a row, and then `columns`."""
    return ", ".join(dict.fromkeys([*(f't."{name}"' for name in table.info["grain"]), *columns]))


def rows_audit(table: Table) -> Audit:
    """Build the audit that checks that a table has as many rows as the records of its shards say."""
    counted = f"(SELECT coalesce(sum((s.n_rows ->> '{table.name}')::BIGINT), 0) FROM shard AS s)"
    sql = f"FROM (SELECT {counted} AS n_counted, count(*) AS n_found FROM {table.fullname}) AS n WHERE n.n_counted <> n.n_found"
    return Audit(f"{table.fullname}: shard rows", "the table has the rows that the manifest of the shards counts", sql)


def metadata_audits(tables: MetaData) -> Iterator[Audit]:
    """Yield the audits that follow from the metadata of each table."""
    for table in tables.tables.values():
        yield grain_audit(table)
        yield null_audit(table)
        if "layer" in table.columns:
            yield layer_audit(table)
        yield from (reference_audit(c) for c in table.columns if "references" in c.info)
        if any(isinstance(c.type, Float | Vector) for c in table.columns):
            yield finite_audit(table)
        if any("bounds" in c.info for c in table.columns):
            yield bounds_audit(table)
        # texts are shared by the runs of one corpus, and of merged tables several rows become one
        if table.info["filled_by"] and not table.info["is_merged"]:
            yield rows_audit(table)
