"""What no answer may be written over: the parts of an atlas."""

import os
from pathlib import Path

from schema.errors import AtlasError

KEPT_SUFFIXES = (".duckdb", ".wal", ".lake", ".duckdb.tmp", ".duckdb.lock")
"""Of atlases and annotations, of the log that DuckDB keeps beside a file, of what describes a lake, and of annotations that are being changed."""


def refuse_kept(path: Path) -> None:
    target = led_to(path)
    said = f"cannot write {path}: it leads to {target}, and" if path.is_symlink() else f"cannot write {path}:"
    if is_database(target):
        raise AtlasError(f"{said} it is a DuckDB file, and stays as it is; give another name")
    if any(name.name.endswith(KEPT_SUFFIXES) or is_work(name) or is_key(name) for name in (path, target)):
        raise AtlasError(f"{said} a file of that name belongs to an atlas; give another name")
    if target.suffix == ".parquet" and target.exists() and not provenance_of(target).exists():
        raise AtlasError(f"{said} it may be a lake's, since no {provenance_of(target).name} lies beside it; give another name, or remove it")


def led_to(path: Path) -> Path:
    """The path itself of links that lead in a circle, which Path.resolve raises an error of its own for."""
    return Path(os.path.realpath(path))


def provenance_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.provenance.json")


def is_key(path: Path) -> bool:
    """Whether the file lies in the folder of an atlas's keys."""
    return any(folder.suffix == ".keys" and folder.with_suffix(".duckdb").exists() for folder in path.parents)


def is_work(path: Path) -> bool:
    """Whether the file lies in the folder in which an atlas is being made."""
    return any(folder.suffix == ".work" and (folder / "lock").exists() for folder in path.parents)


def is_database(path: Path) -> bool:
    """Whether a DuckDB file lies there: its eight bytes of checksum are followed by DUCK."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"
