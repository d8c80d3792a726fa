"""The log beside a database file: changes that DuckDB has written to the log, and not yet to the file.

A log belongs to that very file, so nothing may replace the file while it has a log.
"""

from pathlib import Path

from schema.errors import AtlasError


def log_of(path: Path) -> Path:
    """Return the path at which DuckDB stores the log of a database."""
    return path.with_name(f"{path.name}.wal")


def has_log(path: Path) -> bool:
    """Tell whether a database has a log that is not empty, or something other than a file at the log's path."""
    log = log_of(path)
    return log.exists() and (not log.is_file() or log.stat().st_size > 0)


def refuse_strange(path: Path) -> None:
    """Raise AtlasError if a pipe, a device or a folder is in the place of the database or its log: opening a pipe may wait without end."""
    for found in (path, log_of(path)):
        if found.exists() and not found.is_file():
            raise AtlasError(f"{found} is no file, so that {path} cannot be opened: move it away")


def check_log(path: Path) -> None:
    """Raise AtlasError if replacing a database would separate it from its log."""
    if has_log(path):
        raise AtlasError(f"{log_of(path)} holds changes to {path} that would be lost if that file were replaced: {suggest_log_remedy(path)}")


def suggest_log_remedy(path: Path) -> str:
    """Suggest, for a message, what to do about a log."""
    if not log_of(path).is_file():
        return "the log is no file: move it away"
    bring = f"bring the log into the file with `python -c \"import duckdb; duckdb.connect({str(path)!r}).execute('CHECKPOINT')\"`"
    return f"{bring}, or remove the log to drop its changes" if path.exists() else "that file is missing: move the log away, or the file back"
