"""All or nothing, in a file or in a lake."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb


@contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Do what the block does to the database as a whole or not at all."""
    con.execute("BEGIN")
    try:
        yield
        con.execute("COMMIT")
    except BaseException:
        # always tried: a connection that is closed with a transaction whose catalogue has gone takes the process with it.
        # It fails where nothing is left to undo: the COMMIT has ended it, the database is dead, the catalogue has gone
        with suppress(duckdb.Error):
            con.execute("ROLLBACK")
        raise
