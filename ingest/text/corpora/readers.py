"""Readers of one local file as documents, a piece at a time: memory is bounded by the longest document, not by the file."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.text.corpora.decoded import LONGEST_ROW, decoded_blocks, decoded_lines, first_character
from ingest.text.corpora.document import Document, check_names, missing_column, row_document, text_column
from ingest.text.corpora.json_rows import json_lines, json_list
from schema.errors import AtlasError

MAX_TEXT_CHARS = 100_000
"""A text file longer than this is cut into several documents."""

PARQUET_ROWS = 256


def text_documents(path: Path, name: str) -> Iterator[Document]:
    """Read a text file as one document, or, beyond MAX_TEXT_CHARS, as pieces `name#0`, `name#1`, … that join to the file's text."""
    parts = text_pieces(decoded_blocks(path))
    first, second = next(parts), next(parts, None)
    if second is None:
        yield Document(name, first, {})
        return
    for number, text in enumerate(chain((first, second), parts)):
        yield Document(f"{name}#{number}", text, {}, is_piece=True)


def text_pieces(blocks: Iterator[str]) -> Iterator[str]:
    """Join blocks and cut them into pieces of at most MAX_TEXT_CHARS: after a piece's last line end, else its last white space, else at the limit."""
    buffer = ""
    for block in blocks:
        buffer += block
        while len(buffer) > MAX_TEXT_CHARS:
            end = _cut_point(buffer)
            yield buffer[:end]
            buffer = buffer[end:]
    yield buffer


def _cut_point(buffer: str) -> int:
    line_end = buffer.rfind("\n", 0, MAX_TEXT_CHARS) + 1
    if line_end:
        return line_end
    return next((end for end in range(MAX_TEXT_CHARS, 0, -1) if buffer[end - 1].isspace()), MAX_TEXT_CHARS)


def jsonl_documents(path: Path, name: str, column: str) -> Iterator[Document]:
    """Read one JSON object per line. Rows count from 0; blank lines do not count."""
    rows = json_lines(path)
    for row_number, (where, row) in enumerate(rows):
        yield _row_document(where, f"{name}:{row_number}", row, column)


def json_documents(path: Path, name: str, column: str) -> Iterator[Document]:
    """Read a JSON list of objects, or one object per line. Rows count from 0."""
    rows = json_list(path) if first_character(path) == "[" else json_lines(path)
    for row_number, (where, row) in enumerate(rows):
        yield _row_document(where, f"{name}:{row_number}", row, column)


def _row_document(where: str, name: str, row: dict, column: str) -> Document:
    if text_column(row, column) is None:
        raise missing_column(where, column, row)
    return row_document(name, row, column)


def csv_documents(path: Path, name: str, column: str, delimiter: str = ",") -> Iterator[Document]:
    """Read a table with a header line, quoted as in RFC 4180; every value is text. Rows count from 0 after the header."""
    # by itself it refuses cells beyond 131,072 characters, and a document may well be longer
    csv.field_size_limit(LONGEST_ROW)
    reader = csv.reader(decoded_lines(path), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        check_names(str(path), header)
        if header and column not in header:
            raise missing_column(str(path), column, header)
        for row_number, row in enumerate(row for row in reader if row):
            if len(row) != len(header):
                raise AtlasError(f"{path}, line {reader.line_num}: {len(row)} fields, and the header has {len(header)}")
            yield row_document(f"{name}:{row_number}", dict(zip(header, row, strict=True)), column)
    except csv.Error as error:
        raise AtlasError(f"{path}, line {reader.line_num}: no CSV ({error})") from error


def parquet_documents(path: Path, name: str, column: str) -> Iterator[Document]:
    """Read a Parquet file, PARQUET_ROWS rows at a time; columns that contain bytes are left out. Rows count from 0."""
    try:
        # pre_buffer would load whole row groups, and a file may be one.
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as table:
            names = table.schema_arrow.names
            check_names(str(path), names)
            if (text := text_column(names, column)) is None:
                raise missing_column(str(path), column, names)
            left_out = tuple(field.name for field in table.schema_arrow if field.name != text and _holds_bytes(field.type))
            readable = [name for name in names if name not in left_out]
            nested = {field.name for field in table.schema_arrow if pa.types.is_nested(field.type)}
            rows = (row for batch in table.iter_batches(PARQUET_ROWS, columns=readable) for row in batch.to_pylist())
            for row_number, row in enumerate(rows):
                document = row_document(f"{name}:{row_number}", row, column, nested)
                yield replace(document, left_out=(*left_out, *document.left_out))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        # a time that Python's calendar does not have is one of these
        raise AtlasError(f"{path}: no readable Parquet file ({str(error).splitlines()[0]})") from error


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_bytes(kind.field(i).type) for i in range(kind.num_fields))
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
