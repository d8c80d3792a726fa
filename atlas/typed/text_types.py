"""Columns that come as DuckDB writes them. Imported by the process that runs typed SQL, which has no room for polars."""

from collections.abc import Sequence

TEXT_TYPES = {"bit", "bignum", "geometry", "time with time zone", "uhugeint"}
"""Types whose values Arrow would carry as internals or cut short: their columns come as DuckDB writes them."""

NESTED = ("list", "array", "struct", "map", "union")


def text_columns(description: Sequence[tuple]) -> list[str]:
    """The columns of a result that are to come as text, by its cursor's description."""
    return [name for name, kind, *_ in description if holds_text_type(kind)]


def holds_text_type(kind: object) -> bool:
    """Whether a DuckDB type is one of TEXT_TYPES or one that no dictionary of Python's can be, or has one within."""
    name = getattr(kind, "id", None)
    within = kind.children if name in NESTED else ()  # type: ignore[attr-defined]
    return name in TEXT_TYPES or is_no_dictionary(name, within) or any(holds_text_type(part) for _, part in within)


def is_no_dictionary(name: str | None, within: Sequence[tuple]) -> bool:
    """Whether a structure has two fields of one name, as `row(1, 2)` has none of any, or a map has keys that are lists or structures."""
    if name == "map":
        return any(part == "key" and key.id in NESTED for part, key in within)
    return name == "struct" and len({part for part, _ in within}) < len(within)


def cast_to_text(sql: str, columns: Sequence[str]) -> str:
    """The same SELECT with these columns as text."""
    names = ['"' + name.replace('"', '""') + '"' for name in columns]
    # the line break ends a trailing comment
    return f"SELECT * REPLACE ({', '.join(f'{name}::VARCHAR AS {name}' for name in names)}) FROM (\n{sql}\n)"
