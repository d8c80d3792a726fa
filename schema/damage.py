"""Recognition of damaged files by the errors that DuckDB raises while it reads them."""

import duckdb

UNREADABLE = ("Corrupt database file", "Could not read enough bytes")
"""Parts of DuckDB's messages for a file that begins like a DuckDB file and is damaged further on."""

BROKEN = (duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException, UnicodeDecodeError)
"""Exceptions that DuckDB or Python raises for bytes that it cannot interpret; DuckDB also raises the first two for its own bugs."""


def describe_damage(error: BaseException) -> str | None:
    """Describe, in one line, an error that a damaged file causes; None for any other error."""
    said = " ".join((str(error).splitlines() or [type(error).__name__])[0].split())
    if isinstance(error, BROKEN):
        return f"its data makes no sense ({said.removeprefix('INTERNAL Error: ').removeprefix('FATAL Error: ')})"
    return said if any(text in said for text in UNREADABLE) else None
