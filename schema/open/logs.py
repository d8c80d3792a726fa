"""The log beside a database: what somebody wrote to it and DuckDB has not brought into the file.

It goes with that file alone, so nothing may replace the file while there is one.
"""

from pathlib import Path

from schema.errors import AtlasError


def log_of(path: Path) -> Path:
    """Give the path at which DuckDB keeps the log of a database."""
    return path.with_name(f"{path.name}.wal")


def has_log(path: Path) -> bool:
    """Tell whether a log with anything in it lies beside a database, or what is no file."""
    log = log_of(path)
    return log.exists() and (not log.is_file() or log.stat().st_size > 0)


def refuse_strange(path: Path) -> None:
    """Raise AtlasError where a pipe, a device or a folder is in the place of the database or its log: whoever opens a pipe may wait for it without end."""
    for found in (path, log_of(path)):
        if found.exists() and not found.is_file():
            raise AtlasError(f"{found} is no file, so that {path} cannot be opened: move it away")


def check_log(path: Path) -> None:
    """Raise AtlasError where replacing a database would part it from its log."""
    if has_log(path):
        raise AtlasError(f"{log_of(path)} holds what somebody wrote to {path}, and would be lost with it: {suggest_log_remedy(path)}")


def suggest_log_remedy(path: Path) -> str:
    """Say what can be done with a log."""
    if not log_of(path).is_file():
        return "it is no file: move it away"
    bring = f"bring it in with `python -c \"import duckdb; duckdb.connect({str(path)!r}).execute('CHECKPOINT')\"`"
    return f"{bring}, or remove the log to drop it" if path.exists() else "there is no such file any more: move the log away, or the file back"
