"""Judgement of a typed statement by what DuckDB parses and binds, never by its text: anything that is not on the lists of atlas/typed/allowed.py is refused.

A statement is judged twice, because some functions act while they are bound (`postgres_query` asks its server then): first every name in the parsed statement,
then every operator, table, function and expression of the bound plan, in which views and macros are resolved to what they are made of.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb

from atlas.statement import literal
from atlas.typed.allowed import CATALOGS, EXPRESSIONS, FUNCTIONS, OPERATORS, SCANS, SCHEMAS, SIGNS, TABLE_FUNCTIONS
from schema.errors import QueryRefused
from schema.open.kinds import kinds

OWN_MACROS = """
SELECT DISTINCT f.function_name, f.database_name, system.main.current_database() AS current
FROM system.main.duckdb_functions() AS f
WHERE NOT f.internal
"""
"""Macros that are not DuckDB's own.

DuckDB's own functions are named in full, here and below: a file that claims to be an atlas may have macros of the same names.
The query has no parameters, for which DuckDB imports pandas.
"""

Parameters = Mapping[str, object] | Sequence[object] | None


def judge(cursor: duckdb.DuckDBPyConnection, select: str, parameters: Parameters = None) -> None:
    """Raise QueryRefused unless `select`, one SELECT, uses only what is allowed, and duckdb.Error if it is wrong SQL."""
    catalogs = {*CATALOGS, *companion_databases(), str(cursor.execute("SELECT system.main.current_database()").fetchall()[0][0]).lower()}
    parsed = serialize_statement(cursor, "json_serialize_sql", select)
    if parsed["error"]:
        refuse(f"DuckDB cannot say what this statement does ({first_line(parsed)})")
    judge_names(cursor, parsed, catalogs)
    if parameters:
        select = deserialize_statement(cursor, without_parameters(parsed, nulls(cursor, parameters)))
    plan = serialize_statement(cursor, "json_serialize_plan", select)
    if plan["error"]:
        # wrong SQL is explained by DuckDB, with its line
        cursor.execute(f"EXPLAIN {select}")
        refuse(f"DuckDB cannot say what this statement does ({first_line(plan)})")
    judge_plan(plan, catalogs)


def serialize_statement(cursor: duckdb.DuckDBPyConnection, function: str, select: str) -> dict[str, Any]:
    """Return the statement as DuckDB parses or plans it. Raises QueryRefused if it is nested too deeply, or has a constant that DuckDB cannot write as JSON."""
    try:
        return json.loads(cursor.execute(f"SELECT system.main.{function}({literal(select)})").fetchall()[0][0])
    except RecursionError as error:
        raise QueryRefused("refused: this statement is nested too deeply to be checked") from error
    except json.JSONDecodeError as error:
        # the plans of DuckDB 2 have constants that JSON has no word for, among them BIT and NaN
        raise QueryRefused("refused: DuckDB cannot say what this statement does, because of one of its constants") from error


def first_line(described: dict[str, Any]) -> str:
    return str(described["error_message"]).splitlines()[0]


def companion_databases() -> list[str]:
    """List the names of the databases attached for files beside an atlas, which a statement may use."""
    return [kind.name for kind in kinds()]


def judge_names(cursor: duckdb.DuckDBPyConnection, parsed: dict[str, Any], catalogs: set[str]) -> None:
    found = list(nodes(parsed))
    called = {str(node["function_name"]).lower() for node in found if node.get("function_name") is not None}
    tables = {str(node["function"]["function_name"]).lower() for node in found if node.get("type") == "TABLE_FUNCTION"}
    if strange := (called - FUNCTIONS - SIGNS - TABLE_FUNCTIONS) | (tables - TABLE_FUNCTIONS):
        strange -= {macro for macro, database, current in cursor.execute(OWN_MACROS).fetchall() if database in {current, *companion_databases()}}
    if strange:
        refuse(f"the function {min(strange)}")
    for node in found:
        if node.get("show_type") == "SHOW":
            refuse("SHOW of a name, which may be that of a setting; DESCRIBE shows the columns of a table")
        if node.get("export_state"):
            refuse(f"the inner state of {node.get('function_name')}")
        if node.get("at_clause"):
            refuse("a table as it was at another time")
        # no table of an atlas has such a name, and where it is a file's DuckDB opens that while it binds, at an address that the name may hold
        if "." in (table := node.get("table_name") or ""):
            refuse(f"the table name {table!r}: with a dot, it may be a file or an address")
        for place in (node.get(key) for key in ("catalog_name", "catalog", "schema_name", "schema")):
            if place and place.lower() not in catalogs | SCHEMAS:
                refuse(f"a name in {place}")


def judge_plan(plan: dict[str, Any], catalogs: set[str]) -> None:
    for node in nodes(plan):
        operator, expression = str(node.get("type", "")), node.get("expression_class")
        if expression is not None:
            if expression.removeprefix("BOUND_") not in EXPRESSIONS:
                refuse(f"an expression of the kind {expression}")
            if expression in ("BOUND_FUNCTION", "BOUND_AGGREGATE") and bound_name(node) not in FUNCTIONS | SIGNS:
                refuse(f"the function {bound_name(node)}")
        elif operator.startswith("LOGICAL_"):
            if operator.removeprefix("LOGICAL_") not in OPERATORS:
                refuse(f"{operator.removeprefix('LOGICAL_')} in its plan")
            if operator == "LOGICAL_GET":
                judge_table(node, catalogs)


def judge_table(get: dict[str, Any], catalogs: set[str]) -> None:
    """Raise QueryRefused for a table or table function that is not allowed. get: the bound operator that reads the table or calls the function."""
    name, read = bound_name(get), get.get("function_data") or {}
    if name not in SCANS:
        if name not in TABLE_FUNCTIONS:
            refuse(f"the table function {name}")
        return
    database, schema = read.get("catalog", read.get("catalog_name")), read.get("schema", read.get("schema_name"))
    if str(database).lower() not in catalogs or str(schema).lower() not in SCHEMAS:
        refuse(f"the tables of {database}.{schema}")


def bound_name(node: dict[str, Any]) -> str:
    """Read the name of a bound function, which is in `name` in DuckDB 1 and in `qname` in DuckDB 2."""
    path = (node.get("qname") or {}).get("path") or [node.get("name") or "without a name"]
    return str(path[-1])


def refuse(what: str) -> None:
    raise QueryRefused(f"refused: {what}. A typed statement reads this atlas and nothing else, with functions that only compute")


def nodes(root: object) -> Iterator[dict[str, Any]]:
    """Yield every object within a JSON value."""
    waiting = [root]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found


def nulls(cursor: duckdb.DuckDBPyConnection, parameters: Mapping[str, object] | Sequence[object]) -> dict[str, dict[str, Any]]:
    """Build a NULL of the type of each parameter's value, in parsed form: name of the parameter, or its number from 1 → NULL."""
    named = parameters.items() if isinstance(parameters, Mapping) else ((str(i), value) for i, value in enumerate(parameters, 1))
    kinds = {name: str(cursor.execute("SELECT system.main.typeof(?)", [value]).fetchall()[0][0]) for name, value in named}
    return {name: parsed_null(cursor, kind) for name, kind in kinds.items()}


def without_parameters(parsed: dict[str, Any], values: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Put the parsed values in the place of the parameters, which a plan cannot have. NULLs of their types bind to the same functions."""

    def fill_parameter(node: object) -> object:
        is_parameter = isinstance(node, dict) and node.get("class") == "PARAMETER"
        return values.get(node["identifier"], node) if is_parameter else node  # type: ignore[index]

    for node in nodes(parsed):
        for key, value in node.items():
            node[key] = [fill_parameter(part) for part in value] if isinstance(value, list) else fill_parameter(value)
    for statement in parsed["statements"]:
        statement["named_param_map"] = []
    return parsed


def parsed_null(cursor: duckdb.DuckDBPyConnection, kind: str) -> dict[str, Any]:
    select = "SELECT NULL" if kind == '"NULL"' else f"SELECT CAST(NULL AS {kind})"
    return serialize_statement(cursor, "json_serialize_sql", select)["statements"][0]["node"]["select_list"][0]


def deserialize_statement(cursor: duckdb.DuckDBPyConnection, parsed: dict[str, Any]) -> str:
    """Write a parsed statement as SQL."""
    return str(cursor.execute(f"SELECT system.main.json_deserialize_sql({literal(json.dumps(parsed))})").fetchall()[0][0])
