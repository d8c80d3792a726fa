"""What every source yields: a document, and the corpus that streams it."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal

from schema.errors import AtlasError

DEFAULT_COLUMN = "text"


@dataclass(frozen=True)
class Document:
    """One text, or a piece of a long one: its name within the corpus, and what the source says of it (values that JSON can hold)."""

    name: str
    text: str
    metadata: dict[str, object]
    is_piece: bool = False


@dataclass(frozen=True)
class Corpus:
    """A stream of documents. Each call of `documents` reads the source anew, in the same order, in bounded memory.

    split is "all" where the source has none; revision is a commit, a package version, or None for local files.
    note: what its user is told of how it is read.
    """

    name: str
    split: str
    source: Mapping[str, object]
    revision: str | None
    documents: Callable[[], Iterator[Document]]
    note: str | None = None


def row_document(name: str, row: Mapping[str, object], column: str) -> Document:
    """A row of a table as a document. A null text is an empty text, so that whoever counts blank documents sees it."""
    if column not in row:
        raise missing_column(name, column, row)
    text = row[column]
    if text is None:
        text = ""
    if not isinstance(text, str):
        raise AtlasError(f"{name}: column {column!r} holds {type(text).__name__}, not text; name the text column with --column")
    metadata = {checked(f"{name}, the name of a column", key): _plain(value) for key, value in row.items() if key != column and _is_scalar(value)}
    for key, value in metadata.items():
        if isinstance(value, str):
            checked(f"{name}, column {key!r}", value)
    return Document(name, checked(name, text), metadata)


def missing_column(where: str, column: str, columns: Iterable[str]) -> AtlasError:
    return AtlasError(f"{where}: no column {column!r}; its columns are {', '.join(columns) or 'none'}. Name the text column with --column")


def check_names(where: str, names: Iterable[str]) -> None:
    """Raise AtlasError where two columns have one name: one of them would be lost."""
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise AtlasError(f"{where}: {len(twice)} names are there more than once, the first {twice[0]!r}; name each column once")


def checked(name: str, text: str) -> str:
    """The text, if it can be written as UTF-8: JSON escapes can spell half a surrogate pair, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AtlasError(f"{name}: character {error.start} is half a surrogate pair (U+{ord(text[error.start]):04X}) and no text") from error
    return text


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str | Decimal | date | time)


def _plain(value: object) -> object:
    """A scalar as JSON can hold it: dates in ISO 8601, decimals as text, numbers that are not finite as null."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
