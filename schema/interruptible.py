"""Run a statement so that Ctrl-C and a time limit stop it.

DuckDB 1.5 answers Ctrl-C by raising while its own threads run the query on, and whatever touches the connection next waits for them.
So the statement runs in a thread of its own, and the caller's thread, which gets the signals, interrupts it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import duckdb

T = TypeVar("T")


def interruptible(cursor: duckdb.DuckDBPyConnection, run: Callable[[], T], timeout: float | None = None) -> T:
    """Return run(), which uses `cursor` and nothing else of the connection. Raises TimeoutError after `timeout` seconds."""
    with ThreadPoolExecutor(1, thread_name_prefix="duckdb") as pool:
        running = pool.submit(run)
        try:
            return running.result(timeout)
        finally:
            # nothing to interrupt if it has finished
            cursor.interrupt()
