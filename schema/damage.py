"""What DuckDB says of a file that is damaged, whichever way it comes upon it."""

import duckdb

UNREADABLE = ("Corrupt database file", "Could not read enough bytes")
"""What it says of a file that begins as one of its own and does not go on so."""

BROKEN = (duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException, UnicodeDecodeError)
"""What it, or Python, raises of bytes that make no sense; the first two also where DuckDB itself is wrong."""


def describe_damage(error: BaseException) -> str | None:
    """Describe, in a line, an error that a damaged file leads to; None for any other."""
    said = " ".join((str(error).splitlines() or [type(error).__name__])[0].split())
    if isinstance(error, BROKEN):
        return f"what it holds makes no sense ({said.removeprefix('INTERNAL Error: ').removeprefix('FATAL Error: ')})"
    return said if any(text in said for text in UNREADABLE) else None
