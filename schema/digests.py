"""Digest of a table's rows: a number that depends on their values and column names, but neither on their order nor on the version of DuckDB.

Each row of the Arrow batches that DuckDB returns is hashed by a function of this module, and the hashes are added modulo 2**64, so that the digests of parts of
a table add up to the digest of the whole. A null adds nothing to the hash of its row: a new column, which is null in the existing rows, leaves their digest
unchanged. A digest detects accidental damage, but not intent: other rows with the same digest can be found on purpose.
"""

from collections.abc import Sequence
from functools import cache, reduce
from hashlib import blake2b
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

BATCH_ROWS, BATCH_BYTES = 16_384, 2**21
"""Limits on the rows and bytes that are hashed at once, so that the intermediate results fit in a processor's cache."""

WORD, MODULUS = pa.uint64(), 2**64

BITS = {16: pa.uint16(), 32: pa.uint32(), 64: WORD}
"""Number of bits of a float → unsigned type that its bits are read as."""


class Digest(NamedTuple):
    """Number of rows, and the sum of their hashes."""

    n_rows: int
    total: int

    def __str__(self) -> str:
        return f"{self.total:016x}"

    def plus(self, other: "Digest") -> "Digest":
        """Add the digest of other rows."""
        return Digest(self.n_rows + other.n_rows, (self.total + other.total) % MODULUS)


NOTHING = Digest(0, 0)


def digest_rows(reader: pa.RecordBatchReader) -> Digest:
    """Digest all rows that a reader gives."""
    return reduce(Digest.plus, map(digest_batch, reader), NOTHING)


def digest_batch(batch: pa.RecordBatch) -> Digest:
    """Digest the rows of a batch. The result depends on the names of the columns, not on their order."""
    if not batch.num_rows:
        return NOTHING
    if batch.nbytes > BATCH_BYTES and batch.num_rows > 1:
        half = batch.num_rows // 2
        return digest_batch(batch[:half]).plus(digest_batch(batch[half:]))
    return Digest(batch.num_rows, pc.sum(hash_rows(batch.schema.names, batch.columns)).as_py() % MODULUS)


def hash_rows(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """Hash every row of these columns."""
    words, offset = pa.scalar(0, WORD), 0
    for name, column in zip(names, columns, strict=True):
        # times an odd number of the column's own; another is added, so that 0 is not null
        times, plus = (pa.scalar(number(name, i), WORD) for i in range(2))
        found = pc.multiply(as_words(column), times)
        if column.null_count:
            found = pc.add(found, plus).fill_null(0)
        else:
            offset += plus.as_py()
        words = pc.add(words, found)
    return scatter(pc.add(words, pa.scalar(offset % MODULUS, WORD)))


def as_words(values: pa.Array) -> pa.Array:
    """Hash every value to a number below 2**64; nulls stay null.

    Different integers, floats, booleans or timestamps get different numbers; different values of other types almost always do.
    """
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return as_words(values.storage)
    if pa.types.is_integer(kind):
        words = values.cast(pa.int64(), safe=False).view(WORD)
    elif pa.types.is_boolean(kind):
        words = values.cast(WORD)
    elif pa.types.is_floating(kind):
        words = values.view(BITS[kind.bit_width]).cast(WORD)
    elif pa.types.is_timestamp(kind):
        words = values.cast(pa.timestamp("us", kind.tz)).view(WORD)
    elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return hash_lists(values)
    elif pa.types.is_struct(kind):
        words = hash_rows([field.name for field in kind], values.flatten())
        return pc.if_else(values.is_valid(), words, None) if values.null_count else words
    else:
        return hash_texts(values)
    # a product tells nothing of the upper bits but in its own upper bits, where those of two columns may cancel out
    return fold(words) if kind.bit_width == 64 else words


def hash_texts(values: pa.Array) -> pa.Array:
    """Hash every text or byte string. Values of any other type are hashed by their text."""
    if not pa.types.is_binary(values.type):
        values = values.cast(pa.string()).cast(pa.binary())
    coded = values.dictionary_encode()
    hashes = [int.from_bytes(blake2b(text.as_buffer(), digest_size=8).digest(), "little") for text in coded.dictionary]
    return pa.array(hashes, WORD).take(coded.indices)


def hash_lists(values: pa.Array) -> pa.Array:
    """Hash every list: multiply each item's hash by a fixed base raised to the item's index in the list, and add up these products and the list's length."""
    if pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    start = values.offsets[0]
    items = values.values.slice(start.as_py(), values.offsets[-1].as_py() - start.as_py())
    powers, inverses = powers_up_to(max(len(items).bit_length(), 12))
    # sums from the first item of all on: a list's own is a difference, less the power of the items before it
    sums = pa.concat_arrays([pa.array([0], WORD), pc.cumulative_sum(pc.multiply(hash_items(items), powers[: len(items)]))])
    first, end = pc.subtract(values.offsets[:-1], start), pc.subtract(values.offsets[1:], start)
    words = pc.multiply(pc.subtract(sums.take(end), sums.take(first)), inverses.take(first))
    words = scatter(pc.add(words, pc.subtract(end, first).cast(WORD)))
    return pc.if_else(values.is_valid(), words, None) if values.null_count else words


def hash_items(items: pa.Array) -> pa.Array:
    """Hash every item of lists. The hash of a null is 0; a constant is added to every other hash, so that the value 0 does not hash like a null."""
    if items.type == pa.int8() and not items.null_count:
        return words_of_bytes().take(items.view(pa.uint8()))
    return pc.add(as_words(items), pa.scalar(number("item", 0), WORD)).fill_null(0)


@cache
def words_of_bytes() -> pa.Array:
    """Tabulate the hash of every int8 value, at the index that its bits give as a uint8: looking a hash up is faster than computing it."""
    signed = pa.array([*range(128), *range(-128, 0)], pa.int16())
    return hash_items(signed)


@cache
def powers_up_to(n_bits: int) -> tuple[pa.Array, pa.Array]:
    """Compute the first 2**n_bits powers, modulo 2**64, of a fixed number and of its inverse."""
    # 3 modulo 8: of such a number the powers come round after 2**62, which is as late as any do
    base = number("power", 0) & ~7 | 3
    return powers_of(base, n_bits), powers_of(pow(base, -1, MODULUS), n_bits)


def powers_of(base: int, n_bits: int) -> pa.Array:
    found = pa.array([1], WORD)
    for _ in range(n_bits):
        found = pa.concat_arrays([found, pc.multiply(found, pa.scalar(pow(base, len(found), MODULUS), WORD))])
    return found


def fold(words: pa.Array) -> pa.Array:
    """Mix the upper half of each word into its lower half. Different words stay different."""
    return pc.bit_wise_xor(words, pc.shift_right(words, pa.scalar(32, WORD)))


def scatter(words: pa.Array) -> pa.Array:
    """Mix the bits of each word: two words that differ in one bit get results that differ in about half of their bits."""
    one, other = (pa.scalar(number("scatter", i), WORD) for i in range(2))
    return fold(pc.multiply(fold(pc.multiply(fold(words), one)), other))


@cache
def number(name: str, i: int) -> int:
    """Derive an odd number below 2**64 from a name and an index."""
    return int.from_bytes(blake2b(f"{i}\0{name}".encode(), digest_size=8).digest(), "little") | 1
