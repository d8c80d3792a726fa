"""DuckDB's errors for a damaged file, however DuckDB comes upon the damage."""

import duckdb

UNREADABLE = ("Corrupt database file", "Could not read enough bytes")
"""Parts of DuckDB's messages for a file that begins like one of its own but does not go on like one."""

BROKEN = (duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException, UnicodeDecodeError)
"""Exceptions that DuckDB or Python raises for bytes that make no sense; DuckDB raises the first two for faults of its own too."""


def describe_damage(error: BaseException) -> str | None:
    """Describe, in one line, an error that a damaged file causes; None for any other error."""
    said = " ".join((str(error).splitlines() or [type(error).__name__])[0].split())
    if isinstance(error, BROKEN):
        return f"what it holds makes no sense ({said.removeprefix('INTERNAL Error: ').removeprefix('FATAL Error: ')})"
    return said if any(text in said for text in UNREADABLE) else None
