"""Statements that Ctrl-C and a time limit can stop.

On Ctrl-C, DuckDB 1.5 raises an exception while its own threads continue the query, and the next use of the connection waits for them.
So the statement runs in a separate thread, and the caller's thread, which receives the signals, interrupts it.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import duckdb

T = TypeVar("T")

GLANCE = 0.1
"""Seconds between two checks for signals and the time limit: polars' signal handler does not wake a waiting thread."""


def interruptible(cursor: duckdb.DuckDBPyConnection, run: Callable[[], T], timeout: float = float("inf")) -> T:
    """Call `run` in another thread and return its result; `run` must use only `cursor`, not its connection. Raises TimeoutError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    with ThreadPoolExecutor(1, thread_name_prefix="duckdb") as pool:
        running = pool.submit(run)
        try:
            while not wait([running], min(GLANCE, max(deadline - time.monotonic(), 0))).done:
                if time.monotonic() >= deadline:
                    raise TimeoutError
            return running.result()
        finally:
            # more than once: one that comes before DuckDB has begun is lost
            while not running.done():
                cursor.interrupt()
                wait([running], GLANCE)
