"""Digests of rows: of whatever order and parts the same, and of no other rows. `make clients` takes them with other versions of DuckDB."""

import struct
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from itertools import combinations

import duckdb
import pytest

from schema.digests import NOTHING, Digest, digest_batch
from schema.table_digests import digest_table

KINDS = {
    "TINYINT": ("-1", "0", "127"),
    "BIGINT": ("-9223372036854775808", "0", "9223372036854775807", "4611686018427387904"),
    "DOUBLE": ("0.0", "'-0.0'", "5e-324", "'nan'"),
    "FLOAT": ("0.0", "'-0.0'", "1.0", "1.0000001"),
    "BOOLEAN": ("true", "false"),
    "VARCHAR": ("''", "'a'", "'A'", "'ä'", "'NULL'"),
    "BLOB": ("''", "'\\x00'", "'\\x00\\x00'"),
    "TIMESTAMP WITH TIME ZONE": ("'2026-01-01 00:00:00+00'", "'2026-01-01 00:00:00.000001+00'"),
    "JSON": ("'{}'", "'{ }'", "'[]'"),
    "BIGINT[]": ("[]", "[0]", "[0, 0]", "[NULL]", "[1, 2]", "[2, 1]", "[12]"),
    "TINYINT[]": ("[]", "[0]", "[0, 0]", "[NULL]", "[1, -2]", "[-2, 1]"),
    "FLOAT[2]": ("[1, 2]", "[2, 1]", "[0, 0]", "['-0.0', '-0.0']", "[-1, -2]"),
    "STRUCT(a INTEGER, b VARCHAR)": ("{'a': 1, 'b': NULL}", "{'a': NULL, 'b': '1'}", "{'a': 1, 'b': '1'}"),
    "DECIMAL(4, 1)": ("1.0", "10.0"),
}
"""Type of DuckDB's → values of which each is another."""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect()) as con:
        yield con


def digest(con: duckdb.DuckDBPyConnection, rows: str) -> Digest:
    return digest_table(con, f"({rows})")


@pytest.mark.parametrize("kind", KINDS)
def test_each_value_is_another(con: duckdb.DuckDBPyConnection, kind: str) -> None:
    values = [f"CAST({value} AS {kind})" for value in (*KINDS[kind], "NULL")]
    found = [digest(con, f"SELECT 7 AS other, {value} AS x") for value in values]
    assert [f"{one} and {other}" for one, other in combinations(range(len(values)), 2) if found[one] == found[other]] == []
    # beside others, as a part of them, and in a batch that does not begin where its buffers do
    together = digest(con, " UNION ALL ".join(f"SELECT 7 AS other, {value} AS x" for value in values))
    assert together == sum_up(found)
    (batch,) = con.execute(f"SELECT 7 AS other, unnest([{', '.join(values)}]) AS x").to_arrow_reader(100)
    assert digest_batch(batch[1:-1]) == sum_up(found[1:-1])


def sum_up(digests: list[Digest]) -> Digest:
    total = NOTHING
    for one in digests:
        total = total.plus(one)
    return total


ROWS = """
SELECT i, i * i AS square, CASE WHEN i % 3 = 0 THEN NULL ELSE i::FLOAT / 16 END AS x, range(i % 5)::TINYINT[] AS bytes, i::VARCHAR AS text
FROM range(50000) AS r (i)
"""


def test_order_of_rows_and_columns_does_not_matter_and_what_is_null_adds_nothing(con: duckdb.DuckDBPyConnection) -> None:
    whole = digest(con, ROWS)
    assert whole.n_rows == 50_000
    assert digest(con, f"SELECT text, x, bytes, NULL::DOUBLE AS added, square, i FROM ({ROWS}) ORDER BY hash(i)") == whole
    assert digest(con, f"{ROWS} WHERE i < 777").plus(digest(con, f"{ROWS} WHERE i >= 777")) == whole


@pytest.mark.parametrize(
    "change",
    [
        "REPLACE (CASE i WHEN 1 THEN 4 WHEN 2 THEN 1 ELSE square END AS square)",
        "REPLACE (CASE WHEN i IN (7, 8) THEN -x ELSE x END AS x)",
        "REPLACE (square AS i, i AS square)",
        "RENAME (x AS y)",
    ],
    ids=["values swapped between rows", "two signs", "columns swapped", "column renamed"],
)
def test_what_is_moved_is_another(con: duckdb.DuckDBPyConnection, change: str) -> None:
    assert digest(con, f"SELECT * {change} FROM ({ROWS})") != digest(con, ROWS)


def test_two_equal_rows_do_not_cancel_out(con: duckdb.DuckDBPyConnection) -> None:
    once, twice = digest(con, "SELECT 1 AS i"), digest(con, "SELECT 1 AS i UNION ALL SELECT 1 AS i")
    assert (once.n_rows, twice.n_rows) == (1, 2)
    assert len({0, once.total, twice.total}) == 3


def odd(name: str, i: int) -> int:
    return int.from_bytes(blake2b(f"{i}\0{name}".encode(), digest_size=8).digest(), "little") | 1


def fold(word: int) -> int:
    return word ^ word >> 32


def scatter(word: int) -> int:
    return fold(fold(fold(word) * odd("scatter", 0) % 2**64) * odd("scatter", 1) % 2**64)


def word_of_list(items: list[int]) -> int:
    power = odd("power", 0) & ~7 | 3
    return scatter((sum((fold(item % 2**64) + odd("item", 0)) * power**place for place, item in enumerate(items)) + len(items)) % 2**64)


def test_it_is_what_plain_numbers_give(con: duckdb.DuckDBPyConnection) -> None:
    """And stays so: else every atlas that there is would pass for damaged."""
    rows = [(-3, 0.5, "cat", [1, -2, 2**40]), (2**62, -2.0, "", []), (None, None, None, None)]
    expected = 0
    for number, real, text, items in rows:
        words = {} if number is None else {"number": fold(number % 2**64)}
        words |= {} if real is None else {"real": int.from_bytes(struct.pack("<f", real), "little")}
        words |= {} if text is None else {"text": int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")}
        words |= {} if items is None else {"items": word_of_list(items)}
        expected += scatter(sum(word * odd(name, 0) + odd(name, 1) for name, word in words.items()) % 2**64)
    con.execute("CREATE TABLE t (number BIGINT, real FLOAT, text VARCHAR, items BIGINT[])")
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    assert digest(con, "FROM t") == Digest(3, expected % 2**64)
