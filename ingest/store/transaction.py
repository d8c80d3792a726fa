"""Transactions in a database file or a lake."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb


@contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run the block as one transaction: either all of its changes to the database are made, or none."""
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
