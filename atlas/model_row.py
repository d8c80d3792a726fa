"""The atlas's row of the table model, as far as another module needs it."""

import duckdb

from atlas.cursors import fetch_rows
from schema.errors import AtlasError


def model_values(con: duckdb.DuckDBPyConnection, *columns: str) -> tuple:
    """Read columns of the table model. Raises AtlasError if the atlas has no model yet."""
    rows = fetch_rows(con, f"SELECT {', '.join(columns)} FROM model LIMIT 1")
    if not rows:
        raise AtlasError("this atlas is empty: it has no model yet. `atlas ingest` fills it.")
    return rows[0]


def model_size(con: duckdb.DuckDBPyConnection, column: str) -> int:
    """Read a size of the model, such as n_layers. Raises AtlasError if the column does not hold a whole number."""
    (n,) = model_values(con, column)
    if not isinstance(n, int):
        raise AtlasError(f"this atlas does not say how large its model is: {column} is {str(n)[:40]!r}. `atlas verify` lists what else is wrong with it.")
    return n


def model_weights(con: duckdb.DuckDBPyConnection) -> str:
    """Read the SHA-256 of the weights that the atlas was made from. Raises AtlasError if the atlas does not have the SHA-256."""
    (sha256,) = model_values(con, "weights_sha256")
    if not isinstance(sha256, str):
        raise AtlasError("this atlas does not say which weights it was made from. `atlas verify` lists what else is wrong with it.")
    return sha256
