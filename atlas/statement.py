"""A question with its arguments as one line of SQL, for people to read, save and run in any DuckDB."""

from collections.abc import Mapping
from math import isfinite

from atlas.questions import Question


def statement(q: Question, arguments: Mapping[str, object]) -> str:
    """Write the call `FROM top_triggers(3, 17, n := 10)`: required arguments by position, others by name unless they are the default."""
    given = [argument(arguments[p.name]) for p in q.parameters if p.is_required]
    chosen = [f"{p.name} := {argument(arguments[p.name])}" for p in q.parameters if not p.is_required and arguments[p.name] != p.default_value]
    return f"FROM {q.macro}({', '.join([*given, *chosen])})"


def argument(value: object) -> str:
    """Write a value as SQL. A NUL, which is a token in byte-level vocabularies, becomes chr(0), since DuckDB reads a statement only up to the first NUL."""
    if isinstance(value, str) and "\0" in value:
        return f"({literal(value)})".replace("\0", "' || chr(0) || '")
    return literal(value)


def literal(value: object) -> str:
    """Write a value as SQL: text in quotes, None as NULL, lists in brackets."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(v) for v in value)}]"
    if isinstance(value, float):
        # a number with a point alone is a DECIMAL
        return f"{value}::DOUBLE" if isfinite(value) else f"'{value}'::DOUBLE"
    return repr(value)
