"""Tables as Arrow streams in a file that a stranger may have sent: reading a stream takes no more memory than its length.

pyarrow expands compressed buffers to whatever size they claim, and some types (dictionaries, views, runs) let a few bytes stand for many. So a stream is read
only if its messages are a schema of plain types and batches that are not compressed (Arrow columnar format, "Encapsulated message format").
"""

import struct

import pyarrow as pa

from schema.errors import AtlasError

SCHEMA, RECORD_BATCH = 1, 3
"""Values of MessageHeader in Arrow's Message.fbs."""

HEADER_TYPE, HEADER, COMPRESSION = 1, 2, 3
"""Field numbers: two of Message, one of RecordBatch."""


def stream_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def table_of(stream: bytes) -> pa.Table:
    """Read a table from a stream. Raises AtlasError if it would take more memory than the stream has bytes, ArrowException or OSError if it is not a stream."""
    with pa.ipc.open_stream(stream) as reader:
        if strange := [f"{field.name} is of type {field.type}" for field in reader.schema if not is_plain(field.type)]:
            raise AtlasError(strange[0])
    for message in pa.ipc.MessageReader.open_stream(stream):
        require_plain(message.metadata.to_pybytes())
    table = pa.ipc.open_stream(stream).read_all()
    if table.num_rows > len(stream):
        raise AtlasError(f"it claims {table.num_rows:,} rows in {len(stream):,} bytes")
    table.validate(full=True)
    return table


def is_plain(kind: pa.DataType) -> bool:
    """Tell whether a value of the type takes as many bytes in memory as in the stream."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return is_plain(kind.value_type)
    of = pa.types
    return any(check(kind) for check in (of.is_integer, of.is_floating, of.is_boolean, of.is_string, of.is_large_string, of.is_temporal))


def require_plain(metadata: bytes) -> None:
    """Raise AtlasError for a message that is neither a schema nor an uncompressed batch, according to the flatbuffer that pyarrow reads too."""
    try:
        message = struct.unpack_from("<I", metadata)[0]
        kind = metadata[field_place(metadata, message, HEADER_TYPE)]
        header = field_place(metadata, message, HEADER)
        is_batch = kind == RECORD_BATCH
        is_compressed = is_batch and has_field(metadata, header + struct.unpack_from("<I", metadata, header)[0], COMPRESSION)
    except (struct.error, IndexError) as error:
        raise AtlasError("it has a message that cannot be parsed") from error
    if kind != SCHEMA and (not is_batch or is_compressed):
        raise AtlasError("it has messages that are compressed, or that are neither a schema nor batches of rows")


def field_slot(metadata: bytes, table: int, field: int) -> int:
    """Find the offset of a field from the start of its table; 0 if the field is absent."""
    own = table - struct.unpack_from("<i", metadata, table)[0]
    size = struct.unpack_from("<H", metadata, own)[0]
    found: int = struct.unpack_from("<H", metadata, own + 4 + 2 * field)[0] if 4 + 2 * field < size else 0
    return found


def has_field(metadata: bytes, table: int, field: int) -> bool:
    return field_slot(metadata, table, field) > 0


def field_place(metadata: bytes, table: int, field: int) -> int:
    if not has_field(metadata, table, field):
        raise IndexError(field)
    return table + field_slot(metadata, table, field)
