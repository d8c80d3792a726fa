"""The document that every source yields, and the corpus that streams documents."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from typing import TypeGuard

from schema.errors import AtlasError

DEFAULT_COLUMN, MESSAGES = "text", "messages"
MAX_DEPTH = 64
"""Most levels of nested lists and objects in metadata; DuckDB and every reader of JSON accept that many."""


@dataclass(frozen=True)
class Document:
    """One text, or a piece of a long one: its name within the corpus, and the metadata from the source (values that JSON can hold).

    nested: metadata that are lists or objects. They are left out of the document's digest (survey.py), so that atlases made before nested metadata were stored
    still fit their corpus. left_out: columns whose values JSON cannot hold.
    messages: the messages of a chat that is yet to be rendered (chats.py); the text is empty until then.
    is_chat: whether special tokens that the text spells are read as special tokens.
    """

    name: str
    text: str
    metadata: dict[str, object]
    is_piece: bool = False
    nested: dict[str, object] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    messages: tuple[Mapping[str, object], ...] | None = None
    is_chat: bool = False


@dataclass(frozen=True)
class Corpus:
    """A stream of documents. Each call of `documents` reads the source anew, in the same order, in bounded memory.

    split is "all" if the source has none; revision is a commit, a package version, or None for local files.
    note: a message to the user about how the source is read.
    """

    name: str
    split: str
    source: Mapping[str, object]
    revision: str | None
    documents: Callable[[], Iterator[Document]]
    note: str | None = None


def row_document(name: str, row: Mapping[str, object], column: str, nested_columns: Collection[str] = ()) -> Document:
    """Turn a row of a table into a document. A null text and a chat without messages become an empty text, which counts as a blank document.

    nested_columns: columns of lists or objects, even if this row has none.
    """
    if (held := text_column(row, column)) is None:
        raise missing_column(name, column, row)
    text: object = row[held]
    messages = None
    if is_message_list(text):
        messages, text = plain_messages(f"{name}, column {held!r}", text), ""
    elif text is None or text == []:
        text = ""
    elif not isinstance(text, str):
        raise AtlasError(
            f"{name}: column {held!r} holds {type(text).__name__}, not text, nor a chat, which is a list of messages, each with role and content; "
            "name the text column with --column"
        )
    elif held != column:
        raise AtlasError(f"{name}: column {held!r} holds text, and a chat is a list of messages, each with role and content; --column {held} reads it as text")
    metadata, nested, left_out = split_row(name, {key: value for key, value in row.items() if key != held}, nested_columns)
    return Document(name, require_utf8(name, text), metadata, nested=nested, left_out=left_out, messages=messages)


def split_row(name: str, row: Mapping[str, object], nested_columns: Collection[str]) -> tuple[dict[str, object], dict[str, object], tuple[str, ...]]:
    """Split the metadata of a row in three: single values; lists and objects; and the names of columns whose values JSON cannot hold."""
    metadata: dict[str, object] = {}
    nested: dict[str, object] = {}
    left_out = []
    for key, value in row.items():
        place = f"{name}, column {require_utf8(f'{name}, the name of a column', key)!r}"
        try:
            (metadata if _is_scalar(value) and key not in nested_columns else nested)[key] = _to_json_value(place, value)
        except TypeError:
            left_out.append(key)
    return metadata, nested, tuple(left_out)


def text_column(columns: Container[str], column: str) -> str | None:
    """Find the column that holds the text: `column` if it exists, else MESSAGES if that exists and `column` is the default; None if there is neither."""
    if column in columns:
        return column
    return MESSAGES if column == DEFAULT_COLUMN and MESSAGES in columns else None


def is_message_list(value: object) -> TypeGuard[list[Mapping[str, object]]]:
    """Tell whether a value is the messages of a chat: a list of objects, each of which has a role."""
    return isinstance(value, list) and bool(value) and all(isinstance(message, Mapping) and isinstance(message.get("role"), str) for message in value)


def plain_messages(place: str, messages: Iterable[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
    """Convert the messages to JSON values, the form in which a template gets them. Raises AtlasError for a value that JSON cannot hold."""
    try:
        return tuple({key: _to_json_value(place, value) for key, value in message.items()} for message in messages)
    except TypeError as error:
        raise AtlasError(f"{error}, and a chat's messages must be JSON; leave that value out") from error


def missing_column(where: str, column: str, columns: Iterable[str]) -> AtlasError:
    return AtlasError(f"{where}: no column {column!r}; its columns are {', '.join(columns) or 'none'}. Name the text column with --column")


def check_names(where: str, names: Iterable[str]) -> None:
    """Raise AtlasError if two columns have the same name: one of them would be lost."""
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise AtlasError(f"{where}: {len(twice)} names occur more than once, the first is {twice[0]!r}; name each column once")


def require_utf8(name: str, text: str) -> str:
    """Check that the text can be written as UTF-8, and return it: JSON escapes can spell half a surrogate pair, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AtlasError(f"{name}: character {error.start} is half a surrogate pair (U+{ord(text[error.start]):04X}), which is no text") from error
    return text


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str | Decimal | date | time)


def _to_json_value(place: str, value: object, depth: int = 0) -> object:
    """Convert a value to one that JSON can hold: dates to ISO 8601, decimals to text, non-finite numbers to null. Raises TypeError for other values."""
    if depth >= MAX_DEPTH and not _is_scalar(value):
        raise TypeError(f"{place}: nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return require_utf8(place, value)
    if isinstance(value, Mapping):
        return {require_utf8(place, str(key)): _to_json_value(place, inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(place, inner, depth + 1) for inner in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not _is_scalar(value):
        raise TypeError(f"{place}: JSON has no type for {type(value).__name__}")
    return value
