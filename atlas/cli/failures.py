"""What an error is said as on the command line."""

import errno
import os
import sys

from schema.errors import AtlasError


def said(error: BaseException) -> str:
    """One line, or the lines of an AtlasError; only what nobody thought of is called unexpected."""
    if isinstance(error, AtlasError):
        return str(error)
    if reason := of_file(circle(error)) or of_text(error) or of_damage(error):
        return reason
    return f"{type(error).__name__}: {' '.join(str(error).split())} (unexpected; --debug shows where)"


def circle(error: BaseException) -> BaseException:
    """The system's error where pathlib puts another in its place: before Python 3.13 it does for links that lead in a circle."""
    below = error.__context__
    return below if isinstance(error, RuntimeError) and isinstance(below, OSError) and below.errno == errno.ELOOP else error


def of_file(error: BaseException) -> str | None:
    """Why the system refuses a file or folder, by its name; None for what is no such refusal."""
    if not isinstance(error, OSError) or error.filename is None or not error.strerror:
        return None
    name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    return f"cannot open {name}: {error.strerror}"


def of_text(error: BaseException) -> str | None:
    """Why a text cannot be written: bytes of a command line that are no UTF-8 come to Python as halves of surrogate pairs. None for other errors."""
    if not isinstance(error, UnicodeEncodeError) or not 0xD800 <= (code := ord(error.object[error.start])) <= 0xDFFF:
        return None
    return f"U+{code:04X} is half a surrogate pair, which no text has: is all that was typed UTF-8?"


def of_damage(error: BaseException) -> str | None:
    """What DuckDB says of a damaged file where nobody awaited one; None for other errors."""
    duckdb = sys.modules.get("duckdb")
    if duckdb is None or not isinstance(error, duckdb.Error):
        return None
    from schema.damage import describe_damage

    said = describe_damage(error)
    return said and f"a file is damaged: {said}. `atlas verify` says which"
