"""Formats of files: inferred from the name or the beginning of a file, or named by the user."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ingest.text.corpora.decoded import decoded_blocks, first_character
from ingest.text.corpora.document import Document
from ingest.text.corpora.json_rows import json_lines, json_list
from ingest.text.corpora.readers import csv_documents, json_documents, jsonl_documents, parquet_documents, text_documents
from schema.errors import AtlasError

TABLES: dict[str, Callable[[Path, str, str], Iterator[Document]]] = {
    "jsonl": jsonl_documents,
    "json": json_documents,
    "csv": csv_documents,
    "tsv": partial(csv_documents, delimiter="\t"),
    "parquet": parquet_documents,
}
"""Formats with rows, one column of which is the text."""

FORMATS = ("txt", *TABLES)
COMPRESSED = (".gz", ".zst", ".bz2")
SUFFIXES = (*(f".{each}" for each in FORMATS), ".ndjson", ".md")
"""Suffixes that mark a specification as the name of a file. A file with any other suffix is read as plain text, if it is text."""


def suffix(path: Path) -> str:
    """Find the suffix that names a file's format: the one before the suffix of its compression."""
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return inner.suffix.lower()


def named_format(path: Path) -> str:
    """Tell a file's format from its name."""
    told = suffix(path).removeprefix(".")
    return "jsonl" if told == "ndjson" else told if told in TABLES else "txt"


def sniffed_format(path: Path) -> str:
    """Tell the format of a file without a name from its first row: Parquet, rows of JSON, else plain text."""
    if is_parquet(path):
        return "parquet"
    rows = {"{": ("jsonl", json_lines), "[": ("json", json_list)}.get(first_character(path))
    if rows is None:
        return "txt"
    try:
        next(rows[1](path), None)
    except AtlasError:
        return "txt"
    return rows[0]


def read_documents(path: Path, name: str, form: str, column: str) -> Iterator[Document]:
    """Read the documents of a file of this format. column: the column that holds the text, if the format has columns."""
    return text_documents(path, name) if form == "txt" else TABLES[form](path, name, column)


def is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def is_text(path: Path) -> bool:
    """Tell whether a file of an unknown suffix begins as a text in UTF-8."""
    try:
        return "\0" not in next(decoded_blocks(path))
    except AtlasError:
        return False
