"""Statements of visitors, run within limits: each in a process of its own, few at once, few results cached."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import BoundedSemaphore, Lock

import polars as pl
import streamlit as st

from atlas.typed.hints import add_hints
from atlas.typed.sandbox import Process, run, start_process
from schema.errors import AtlasError
from ui import data
from ui.snapshot import Snapshot

MAX_ROWS, MAX_BYTES, TIMEOUT, MEMORY = 10_000, 32 << 20, 10.0, 4 << 30
"""Limits of a statement: rows and bytes of its result, and the seconds and bytes of memory that it may take."""

AT_ONCE, PATIENCE, RESULTS = 2, 30.0, 8
"""Limits of a server, for all visitors together: statements run at the same time, seconds that a further statement waits for its turn, and results cached."""

LIMITS = f"One SELECT, at most {MAX_ROWS:,} rows, {MAX_BYTES >> 20} MB and {TIMEOUT:g} seconds. It reads this atlas and nothing else."

TURNS = BoundedSemaphore(AT_ONCE)

WAITING: list[Process] = []
"""At most one process for the whole server, started in advance so that the next statement need not wait for its own to start."""

LOCK = Lock()


def prepare() -> None:
    """Start a process that waits for the next statement of any visitor, unless one waits already. It has opened no atlas."""
    with LOCK:
        if not WAITING:
            WAITING.append(start_process())


def take_waiting_process() -> Process | None:
    """Take the waiting process for one statement alone; None if there is none, or if it has ended."""
    with LOCK:
        process = WAITING.pop() if WAITING else None
    return process if process and process.poll() is None else None


@contextmanager
def turn() -> Iterator[None]:
    """Wait for one of the few turns to run a statement. Raises AtlasError if none becomes free within PATIENCE seconds."""
    if not TURNS.acquire(timeout=PATIENCE):
        raise AtlasError(f"{AT_ONCE} statements are running, as many as this server runs at once, and none ended within {PATIENCE:g} s: press Run again later")
    try:
        yield
    finally:
        TURNS.release()


@st.cache_data(max_entries=RESULTS, show_spinner=f"Asking … {AT_ONCE} statements run at once, and others wait for their turn.")
def result(snapshot: Snapshot, sql: str) -> tuple[pl.DataFrame, bool]:
    """Read the rows of a statement, and whether there are more than those returned.

    Raises AtlasError for a statement that is refused or wrong, SnapshotReplaced if the file that was read is no longer this snapshot.
    """
    with turn(), add_hints(sql):
        found = run(Path(snapshot.path), sql, max_rows=MAX_ROWS, timeout=TIMEOUT, max_bytes=MAX_BYTES, memory=MEMORY, process=take_waiting_process())
    data.check_current(snapshot)
    return found.frame, found.is_truncated
