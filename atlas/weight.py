"""What a result comes to when it is written out. Arrow holds a text that many rows share once, and the names within a structure once for all rows;
whoever shows or saves the rows does not.
"""

import pyarrow as pa
import pyarrow.compute as pc

from schema.errors import AtlasError

LEAST = 4
"""Bytes of a value within a list or a structure, such as a bit: no format writes less."""

DEEPEST = 60
"""Lists and structures within each other: an Arrow stream takes 64."""


def weight(table: pa.Table) -> int:
    """Bytes. Raises AtlasError for what is nested deeper than a result can be."""
    rows = sum(weigh(chunk, 0) for column in table.columns for chunk in column.chunks)
    return rows + table.schema.serialize().size


def weigh(values: pa.Array, depth: int) -> int:
    """Bytes of an array's values, which are `depth` lists and structures down."""
    if depth > DEEPEST:
        raise AtlasError(f"the answer has lists or structures more than {DEEPEST} deep: take them apart in the query")
    kind = values.type
    if pa.types.is_dictionary(kind):
        return pc.sum(pc.take(pc.binary_length(values.dictionary), values.indices)).as_py() or 0
    if pa.types.is_struct(kind):
        names = sum(len(field.name.encode()) for field in kind)
        return len(values) * names + sum(within(field, depth) for field in values.flatten())
    if pa.types.is_map(kind):
        return within(values.keys, depth) + within(values.items, depth)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return within(values.flatten(), depth) + LEAST * len(values)
    return values.nbytes


def within(values: pa.Array, depth: int) -> int:
    return max(weigh(values, depth + 1), LEAST * len(values))
