"""Numbers as the schema has them, before they are written: a lake takes over files as they are, and refuses those of another type."""

from functools import cache

import pyarrow as pa
from sqlalchemy import REAL, BigInteger, Boolean, Double, Integer, SmallInteger

from schema.errors import AtlasError
from schema.tables import metadata

TYPES = {
    SmallInteger: pa.int16(), Integer: pa.int32(), BigInteger: pa.int64(), REAL: pa.float32(), Double: pa.float64(), Boolean: pa.bool_(),
}  # fmt: skip
"""Arrow's for the schema's; columns of other types are left as they are."""


def typed(name: str, rows: pa.Table) -> pa.Table:
    """Rows of a table with each number in its column's type. Raises AtlasError for one that the type does not hold."""
    of = types(name)
    wanted = pa.schema([field.with_type(of.get(field.name, field.type)) for field in rows.schema])
    try:
        return rows if rows.schema.equals(wanted) else rows.cast(wanted)
    except pa.ArrowInvalid as error:
        raise AtlasError(f"table {name} cannot be written: {error}") from error


@cache
def types(name: str) -> dict[str, pa.DataType]:
    found = metadata(1).tables.get(name)
    return {} if found is None else {c.name: TYPES[type(c.type)] for c in found.columns if type(c.type) in TYPES}
