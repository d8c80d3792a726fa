"""Refusal of NaN and infinite numbers, which are never stored."""

import pyarrow as pa
import pyarrow.compute as pc

from schema.errors import AtlasError


class NotFinite(AtlasError):
    """A NaN or an infinity among the numbers that a model computed."""


def require_finite(name: str, table: pa.Table) -> None:
    """Raise NotFinite, with the column and the count, if a table has a NaN or an infinity."""
    for column, values in zip(table.column_names, table.columns, strict=True):
        while pa.types.is_nested(values.type) and not pa.types.is_struct(values.type):
            values = pc.list_flatten(values)
        if pa.types.is_floating(values.type) and (n_wrong := len(values) - values.null_count - (pc.sum(pc.is_finite(values)).as_py() or 0)):
            raise NotFinite(f"{name}.{column}: {n_wrong} of {len(values)} numbers are NaN or infinite; nothing of this shard was stored")
