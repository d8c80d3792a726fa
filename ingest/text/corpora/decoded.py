"""Reading of a file's bytes as UTF-8 text, whether it is compressed or not."""

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from schema.errors import AtlasError

BLOCK_BYTES = 1 << 16
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
"""First bytes of a compressed file → kind of compression. A UTF-8 text cannot begin with those of gzip and zstd. It can begin with those of bz2, so the bytes
that follow are compared with BZ2_STARTS."""

BZ2_STARTS = (b"1AY&SY", b"\x17rE8P\x90")
"""Bytes that follow BZh and the level in a bz2 file: the start of a block, or the end of a file without blocks."""

LONGEST_ROW = 1 << 29
"""Most bytes of a line, and most characters of a list's item or of a cell. Each is read whole, and a small compressed file may unpack to any size."""


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file's bytes. The first bytes, not the name, tell whether to decompress. Raises AtlasError if compressed data is broken."""
    if (kind := compression(path)) is None:
        with path.open("rb") as file:
            yield file
        return
    try:
        with pa.input_stream(str(path), compression=kind) as stream, io.BufferedReader(cast(io.RawIOBase, stream), BLOCK_BYTES) as file:
            yield cast(BinaryIO, file)
    except (pa.ArrowException, OSError) as error:
        raise AtlasError(f"{path}: this {kind} file cannot be decompressed ({str(error).splitlines()[0]}); is the file complete?") from error


def compression(path: Path) -> str | None:
    """Name the compression of a file; None if it is not compressed."""
    with path.open("rb") as file:
        start = file.read(10)
    kind = next((kind for magic, kind in MAGIC.items() if start.startswith(magic)), None)
    return None if kind == "bz2" and start[4:] not in BZ2_STARTS else kind


def first_character(path: Path) -> str:
    """Read the first character that is not white space; '' if there is none."""
    return next((start[0] for block in decoded_blocks(path) if (start := block.lstrip())), "")


def decoded_lines(path: Path) -> Iterator[str]:
    """Yield lines with their ends, cut at line feeds only."""
    offset = 0
    with open_bytes(path) as file:
        while line := file.readline(LONGEST_ROW + 1):
            if len(line) > LONGEST_ROW:
                raise too_long_error(f"{path}: the line from byte {offset} on")
            text = line.removeprefix(codecs.BOM_UTF8) if offset == 0 else line
            try:
                yield text.decode()
            except UnicodeDecodeError as error:
                raise _not_utf8(path, offset + len(line) - len(text) + error.start, error) from error
            offset += len(line)


def decoded_blocks(path: Path) -> Iterator[str]:
    """Yield the text in blocks, line ends as they are; a file may be one line of any length."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    with open_bytes(path) as file:
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


def too_long_error(place: str) -> AtlasError:
    return AtlasError(f"{place} is longer than {LONGEST_ROW:,} bytes, the most that is read at once; cut it into several rows")


def _not_utf8(path: Path, offset: int, error: UnicodeDecodeError) -> AtlasError:
    return AtlasError(f"{path}: byte {offset} (0x{error.object[error.start]:02x}) is not UTF-8; convert the file, for example with iconv")
