"""Reading of suite files, which people write: their size is bounded, and a message of one line says what is wrong with a file."""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ingest.text.corpora.document import check_names, require_utf8
from schema.errors import AtlasError

MOST_BYTES = 2**28
"""Limit on the size of a suite file, which is read into memory; all of BLiMP takes a tenth of it."""

MOST_CHARS = 10_000
"""Limit on the characters of a sentence, which the model reads in one context."""


def read_bytes(path: Path) -> bytes:
    """Read a regular file of at most MOST_BYTES. Raises AtlasError if it is missing, too large or unreadable."""
    try:
        if not path.is_file():
            raise AtlasError(f"suite {str(path)!r}: there is no such file; give a file (.jsonl .json .yaml), a pattern of files, or agreement")
        if (size := path.stat().st_size) > MOST_BYTES:
            raise AtlasError(f"suite {path}: the file has {size:,} bytes, and {MOST_BYTES:,} are read at most; divide it")
        return path.read_bytes()
    except OSError as error:
        raise AtlasError(f"suite {path}: {error.strerror}") from error


def read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AtlasError(f"{path}: byte {error.start} is not UTF-8") from error


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the place (file and line number, for messages) and the JSON object of each line that is not blank."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, mapping(where, json_value(where, line))


def json_value(where: str, text: str) -> object:
    """Parse JSON text. Raises AtlasError if it is not JSON, or if an object has two fields with the same name."""

    def unique_name_dict(pairs: list[tuple[str, object]]) -> dict[str, object]:
        check_names(where, [name for name, _ in pairs])
        return dict(pairs)

    try:
        found: object = json.loads(text, object_pairs_hook=unique_name_dict)
    except json.JSONDecodeError as error:
        raise AtlasError(f"{where}: no JSON ({error.msg} at character {error.pos})") from error
    except (ValueError, RecursionError) as error:
        # a number of thousands of digits; lists within lists
        raise AtlasError(f"{where}: JSON that cannot be read ({str(error).partition(';')[0]})") from error
    return found


def check_fields(where: str, row: Mapping[str, object], needed: Collection[str], allowed: Collection[str] = ()) -> None:
    """Raise AtlasError if a needed field is missing, or if there is a field that is neither needed nor allowed."""
    if missing := sorted(set(needed) - row.keys()):
        raise AtlasError(f"{where}: no field {missing[0]!r}; there are {', '.join(map(repr, row)) or 'none'}")
    if unknown := sorted(row.keys() - set(needed) - set(allowed)):
        raise AtlasError(f"{where}: unknown field {unknown[0]!r}; known are {', '.join(sorted({*needed, *allowed}))}")


def mapping(where: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise AtlasError(f"{where}: an object with named fields is needed, and this is {type(value).__name__}")
    return value


def require_list(where: str, value: object) -> list[object]:
    if not isinstance(value, list) or not value:
        raise AtlasError(f"{where}: a list with something in it is needed")
    return value


def text_of(where: str, row: Mapping[str, object], name: str) -> str:
    """Read a field that must be text, not blank and at most MOST_CHARS long."""
    return sentence(f"{where}, {name}", row[name])


def name_of(where: str, row: Mapping[str, object], name: str, other: str) -> str:
    """Read a field that holds a name, either text or a whole number; return `other` if it is missing or empty."""
    value = row.get(name)
    if value is None or value == "":
        return other
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return sentence(f"{where}, {name}", value)


def sentence(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise AtlasError(f"{where}: text is needed, and this is {type(value).__name__}")
    if not value.strip():
        raise AtlasError(f"{where} is empty")
    if len(value) > MOST_CHARS:
        raise AtlasError(f"{where} has {len(value):,} characters, and {MOST_CHARS:,} are read at most")
    return require_utf8(where, value)
