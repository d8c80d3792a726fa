"""Retries while a lake's servers do not answer, as when PostgreSQL restarts: the ingest waits, opens the lake anew, and continues."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

import duckdb

from ingest.faults import NO_PERMISSION, NO_SPACE
from ingest.store.lake.store import LakeStore, whoami
from schema.errors import Locked, Unreachable

WAITS = (1.0, 5.0, 20.0, 60.0, 300.0)
"""Seconds before each new attempt; they start over after an attempt that committed something."""

T = TypeVar("T")


def run_with_retries(opening: Callable[[], AbstractContextManager[LakeStore]], action: Callable[[LakeStore], T], say: Callable[[str], object]) -> T:
    """Run `action` on the lake that `opening` opens, and return its result; while the lake does not answer, try again after growing waits.

    Raises the error of the last attempt. A lake that was never reached may have a wrong address: its first error is raised at once.
    """
    was_reached, waits = False, list(WAITS)
    while True:
        try:
            with opening() as store:
                was_reached = True
                try:
                    return action(store)
                finally:
                    if store.n_commits:
                        waits = list(WAITS)
        except (duckdb.Error, Unreachable, Locked) as error:
            if not waits or not may_pass(error) or (not was_reached and isinstance(error, Unreachable | Locked)):
                raise
            say(f"the lake stopped answering: {' '.join(str(error).split())}. What was loaded is kept; trying again in {waits[0]:.0f} s")
        time.sleep(waits.pop(0))


def may_pass(error: Exception) -> bool:
    """Tell whether another attempt may succeed. A lost PostgreSQL appears as almost any DuckDB error: only errors that it never causes are excluded."""
    if isinstance(error, Locked):
        # by a session of this process, which PostgreSQL does not know to be dead
        return whoami() in str(error)
    no_use = isinstance(error, duckdb.OutOfMemoryException | duckdb.ConstraintException)
    return not no_use and not any(text in str(error) for text in (*NO_SPACE, *NO_PERMISSION))
