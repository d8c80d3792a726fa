"""Tables that a statement reads, directly or through the views and questions that it names."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb

from atlas.cursors import fetch_rows
from atlas.questions import questions
from schema.open.kinds import kinds
from schema.release import view_files
from schema.table_facts import facts

NAMES = {"BASE_TABLE": ("table_name", "schema_name", "catalog_name"), "FUNCTION": ("function_name", "schema", "catalog")}
"""Kind of node in DuckDB's parse → keys of its name, of its schema and of its database; a single word before a name is parsed as a schema."""

NAMED = r"(?:FROM|JOIN) (?:(\w+)\.)?(\w+)"
"""Pattern of a relation in SQL of this project: its database, if that is named, and its name."""

REQUIRED = rf"(?<!LEFT )(?<!FULL )(?<!ANTI ){NAMED}"
"""Pattern of a relation without which a statement has no rows, if its CTEs are joined by INNER JOIN alone and it has no UNION."""


@cache
def definitions() -> dict[str, str]:
    """Collect the SQL of every question and view."""
    return {**view_files(), **{name: q.sql for name, q in questions().items()}}


def relations(sql: str, pattern: str = NAMED) -> set[str]:
    """Find the tables, views and questions that SQL of this project names, directly or through other views and questions. pattern: NAMED or REQUIRED."""
    return with_theirs(relation_names(sql, pattern), pattern)


def relations_of_statement(con: duckdb.DuckDBPyConnection, sql: str) -> set[str] | None:
    """Find the relations of a statement that a user typed; None if DuckDB does not parse it into JSON, as with PIVOT, or if it is nested too deeply."""
    try:
        parsed = json.loads(fetch_rows(con, "SELECT json_serialize_sql(?, skip_default := true)", [sql])[0][0])
    except RecursionError:
        return None
    return None if parsed["error"] else with_theirs(set(names(parsed["statements"])))


def with_theirs(named: set[str], pattern: str = NAMED) -> set[str]:
    """Add, recursively, the relations that the SQL of named views and questions names."""
    found, new = set(), set(named)
    while new:
        found |= new
        new = {inner for name in new if name in definitions() for inner in relation_names(definitions()[name], pattern)} - found
    return found


def relation_names(sql: str, pattern: str) -> set[str]:
    return {in_database(database, name) for database, name in re.findall(pattern, sql)}


def in_database(database: str, name: str) -> str:
    """Put `database` before a table's name if it is a database beside the atlas and the atlas has a table of that name too, as with experiments.attribution."""
    return f"{database}.{name}" if name in facts().filled_by and database in {kind.name for kind in kinds()} else name


def names(parsed: object) -> Iterator[str]:
    """Yield the name of every table and function in a parsed statement, however deeply it is nested."""
    return (
        in_database((part.get(catalog) or part.get(schema, "")).lower(), part.get(key, "").lower())
        for part in nodes_of(parsed)
        for kind, (key, schema, catalog) in NAMES.items()
        if part.get("type") == kind
    )


def nodes_of(parsed: object) -> Iterator[dict[str, Any]]:
    """Yield every object of a parsed statement, however deeply it is nested."""
    left = [parsed]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            yield part
            left += part.values()
        elif isinstance(part, list):
            left += part
