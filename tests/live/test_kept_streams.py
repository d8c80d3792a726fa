"""Streams that a stranger's file of experiments may hold: what claims more than it brings is refused before it is read."""

import pyarrow as pa
import pytest

from atlas.live.shape import require_tokens
from atlas.live.streams import stream_of, table_of
from schema.errors import AtlasError

PLAIN = pa.table(
    {
        "i": pa.array([1, None], pa.int16()), "x": [0.5, 1.5], "text": ["a", "é"], "is_it": [True, False],
        "vector": pa.array([[1.0], None], pa.list_(pa.float32())), "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
    }
)  # fmt: skip


def streamed(table: pa.Table, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def test_what_is_kept_is_read_as_it_was() -> None:
    assert table_of(stream_of(PLAIN)).equals(PLAIN)
    several = pa.concat_tables([PLAIN, PLAIN])
    assert table_of(stream_of(several)).equals(several)
    assert table_of(stream_of(PLAIN.schema.empty_table())).num_rows == 0


@pytest.mark.parametrize("how", ["zstd", "lz4"])
def test_what_is_compressed_is_not_expanded(how: str) -> None:
    sent = streamed(pa.table({"i": pa.array([0] * 10_000_000, pa.int64())}), compression=how)
    assert len(sent) < 1_000_000
    before = pa.total_allocated_bytes()
    with pytest.raises(AtlasError, match="messages that are compressed"):
        table_of(sent)
    assert pa.total_allocated_bytes() - before < 1_000_000


@pytest.mark.parametrize(
    "column",
    [
        pa.nulls(1000),
        pa.array(["x"] * 9).dictionary_encode(),
        pa.array(["x" * 100] * 9, pa.string_view()),
        pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int64()), pa.array([1.0])),
        pa.array([{"a": 1}]),
        pa.array([[None]], pa.list_(pa.null())),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_types_of_which_few_bytes_are_much_are_refused(column: pa.Array) -> None:
    with pytest.raises(AtlasError, match="c is of type"):
        table_of(streamed(pa.table({"c": column})))


def test_rows_that_take_no_bytes_are_refused() -> None:
    column = pa.FixedSizeListArray.from_buffers(pa.list_(pa.int8(), 0), 1 << 30, [None], children=[pa.array([], pa.int8())])
    with pytest.raises(AtlasError, match="rows in"):
        table_of(streamed(pa.table({"c": column})))


def test_what_is_cut_or_none_is_an_error() -> None:
    whole = stream_of(PLAIN)
    for sent in (b"", b"none", whole[:40], whole[: len(whole) // 2], bytes(64)):
        with pytest.raises((AtlasError, pa.ArrowException, OSError)):
            table_of(sent)


def test_tokens_are_those_of_the_atlas() -> None:
    """Of a vocabulary of five, null where there is none; each column is looked at, and each list."""
    good = {"token_id": [0, 4], "next_token_id": [3, None], "token_ids": [[1, 2], []], "rank": [9, -9]}
    require_tokens("position", pa.table(good), 4)
    require_tokens("position", pa.table(good).slice(0, 0), 4)
    for column, wrong, token in (("token_id", [5, 0], 5), ("token_id", [0, -1], -1), ("next_token_id", [None, 99], 99), ("token_ids", [[1], [2, 5]], 5)):
        with pytest.raises(AtlasError, match=f"column {column} of its table position has token {token}, and the atlas has tokens 0 to 4"):
            require_tokens("position", pa.table(good | {column: wrong}), 4)
