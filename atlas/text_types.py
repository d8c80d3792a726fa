"""Columns that come as DuckDB writes them. Imported by the process that runs typed SQL, which has no room for polars."""

from collections.abc import Sequence

TEXT_TYPES = {"bit", "bignum", "time with time zone", "uhugeint"}
"""Types whose values Arrow would carry as internals or cut short: their columns come as DuckDB writes them."""


def text_columns(description: Sequence[tuple]) -> list[str]:
    """The columns of a result that are to come as text, by its cursor's description."""
    return [name for name, kind, *_ in description if holds_text_type(kind)]


def holds_text_type(kind: object) -> bool:
    """Whether a DuckDB type is one of TEXT_TYPES or has one within."""
    name = getattr(kind, "id", None)
    within = kind.children if name in ("list", "array", "struct", "map", "union") else ()  # type: ignore[attr-defined]
    return name in TEXT_TYPES or any(holds_text_type(part) for _, part in within)


def cast_to_text(sql: str, columns: Sequence[str]) -> str:
    """The same SELECT with these columns as text."""
    names = ['"' + name.replace('"', '""') + '"' for name in columns]
    # the line break ends a trailing comment
    return f"SELECT * REPLACE ({', '.join(f'{name}::VARCHAR AS {name}' for name in names)}) FROM (\n{sql}\n)"
