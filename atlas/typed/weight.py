"""What a result comes to when it is written out. Arrow holds a text that many rows share once, and the names within a structure once for all rows;
whoever shows or saves the rows does not.
"""

import pyarrow as pa
import pyarrow.compute as pc

LEAST = 4
"""Bytes of a value within a list or a structure, such as a bit: no format writes less."""


LONG_NAME = 100
"""Bytes of a column's name that count for each row, as JSON has it there; shorter ones are what a table has anyway."""


def weight(table: pa.Table) -> int:
    """Bytes."""
    long_names = sum(n for name in table.column_names if (n := len(name.encode())) > LONG_NAME)
    return table.schema.serialize().size + table.num_rows * long_names + sum(weigh(chunk) for column in table.columns for chunk in column.chunks)


def weigh(values: pa.Array) -> int:
    kind = values.type
    if pa.types.is_dictionary(kind):
        return pc.sum(pc.take(pc.binary_length(values.dictionary), values.indices)).as_py() or 0
    if pa.types.is_struct(kind):
        names = sum(len(field.name.encode()) for field in kind)
        return len(values) * names + sum(within(field) for field in values.flatten())
    if pa.types.is_map(kind):
        return within(values.keys) + within(values.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return within(values.flatten()) + LEAST * len(values)
    return values.nbytes


def within(values: pa.Array) -> int:
    return max(weigh(values), LEAST * len(values))
