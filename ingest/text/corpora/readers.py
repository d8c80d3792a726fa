"""Read one local file as documents, a piece at a time: memory is bounded by the longest document, not by the file."""

import codecs
import csv
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.text.corpora.document import Document, check_names, missing_column, row_document
from schema.errors import AtlasError

MAX_TEXT_CHARS = 100_000
"""A text file longer than this is cut into several documents."""

BLOCK_BYTES = 1 << 16
PARQUET_ROWS = 256
MAX_CSV_FIELD = 2**31 - 1
"""The csv module refuses cells beyond 131,072 characters by default, and a document may well be longer."""


def text_documents(path: Path, name: str) -> Iterator[Document]:
    """A text file: one document, or, beyond MAX_TEXT_CHARS, pieces `name#0`, `name#1`, … that glue to the file's text."""
    parts = text_pieces(_decoded_blocks(path))
    first, second = next(parts), next(parts, None)
    if second is None:
        yield Document(name, first, {})
        return
    for number, text in enumerate(chain((first, second), parts)):
        yield Document(f"{name}#{number}", text, {}, is_piece=True)


def text_pieces(blocks: Iterator[str]) -> Iterator[str]:
    """Glue blocks and cut them into pieces of at most MAX_TEXT_CHARS, after the last line end in it, else white space, else there."""
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
    """One JSON object a line; rows count from 0, lines that are blank do not count."""
    row_number = 0
    for line_number, line in enumerate(_decoded_lines(path), start=1):
        if line.isspace():
            continue
        row = _json_object(path, line_number, line)
        if column not in row:
            raise missing_column(f"{path}, line {line_number}", column, row)
        yield row_document(f"{name}:{row_number}", row, column)
        row_number += 1


def _json_object(path: Path, line_number: int, line: str) -> dict:
    where = f"{path}, line {line_number}"
    try:
        row = json.loads(line, object_pairs_hook=lambda pairs: _named_once(where, pairs))
    except json.JSONDecodeError as error:
        raise AtlasError(f"{where}: no JSON ({error.msg} at character {error.pos})") from error
    except (ValueError, RecursionError) as error:
        # a number of thousands of digits; lists within lists
        raise AtlasError(f"{where}: JSON that cannot be read ({str(error).partition(';')[0]})") from error
    if not isinstance(row, dict):
        raise AtlasError(f"{where}: a JSON {type(row).__name__}, where each line should be an object")
    return row


def _named_once(where: str, pairs: list[tuple[str, object]]) -> dict[str, object]:
    check_names(where, [name for name, _ in pairs])
    return dict(pairs)


def csv_documents(path: Path, name: str, column: str) -> Iterator[Document]:
    """A comma-separated file with a header line, quoted as RFC 4180 has it; every value is text. Rows count from 0 after the header."""
    csv.field_size_limit(MAX_CSV_FIELD)
    reader = csv.reader(_decoded_lines(path), strict=True)
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
    """A Parquet file, PARQUET_ROWS rows at a time; nested and binary columns are left in the file. Rows count from 0."""
    try:
        # pre_buffer would load whole row groups, and a file may be one.
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as table:
            names = table.schema_arrow.names
            check_names(str(path), names)
            if column not in names:
                raise missing_column(str(path), column, names)
            readable = [field.name for field in table.schema_arrow if field.name == column or not _is_nested_or_binary(field.type)]
            rows = (row for batch in table.iter_batches(PARQUET_ROWS, columns=readable) for row in batch.to_pylist())
            for row_number, row in enumerate(rows):
                yield row_document(f"{name}:{row_number}", row, column)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        # a time that Python's calendar does not have is one of these
        raise AtlasError(f"{path}: no readable Parquet file ({str(error).splitlines()[0]})") from error


def _is_nested_or_binary(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def _decoded_lines(path: Path) -> Iterator[str]:
    """Lines with their ends, cut at line feeds only."""
    offset = 0
    with path.open("rb") as file:
        for line in file:
            text = line.removeprefix(codecs.BOM_UTF8) if offset == 0 else line
            try:
                yield text.decode()
            except UnicodeDecodeError as error:
                raise _not_utf8(path, offset + len(line) - len(text) + error.start, error) from error
            offset += len(line)


def _decoded_blocks(path: Path) -> Iterator[str]:
    """The text in blocks, line ends as they are; a file may be one line of any length."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield _decode_block(path, decoder, block, offset).removeprefix("\ufeff" if offset == 0 else "")
            offset += len(block)
    yield _decode_block(path, decoder, b"", offset)


def _decode_block(path: Path, decoder: codecs.IncrementalDecoder, block: bytes, offset: int) -> str:
    """Decode the block that begins `offset` bytes into the file; an empty block ends the text."""
    waiting = len(decoder.getstate()[0])
    try:
        return decoder.decode(block, final=not block)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, offset - waiting + error.start, error) from error


def _not_utf8(path: Path, offset: int, error: UnicodeDecodeError) -> AtlasError:
    return AtlasError(f"{path}: byte {offset} (0x{error.object[error.start]:02x}) is not UTF-8; convert the file, for example with iconv")
