"""The log beside a database: changes that were written to it and that DuckDB has not yet brought into the file.

A log belongs to that very file, so nothing may replace the file while it has a log.
"""

from pathlib import Path

from schema.errors import AtlasError


def log_of(path: Path) -> Path:
    """Give the path at which DuckDB keeps the log of a database."""
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
        raise AtlasError(f"{log_of(path)} holds what somebody wrote to {path}, and would be lost with it: {suggest_log_remedy(path)}")


def suggest_log_remedy(path: Path) -> str:
    """Suggest, for a message, what to do about a log."""
    if not log_of(path).is_file():
        return "it is no file: move it away"
    bring = f"bring it in with `python -c \"import duckdb; duckdb.connect({str(path)!r}).execute('CHECKPOINT')\"`"
    return f"{bring}, or remove the log to drop it" if path.exists() else "there is no such file any more: move the log away, or the file back"
