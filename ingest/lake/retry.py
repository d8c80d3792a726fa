"""A lake whose servers stop answering: its PostgreSQL is restarted, its storage is away. The ingest waits, opens it anew, and goes on."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

import duckdb

from ingest.lake.store import LakeStore
from schema.errors import Unreachable

WAITS = (1.0, 5.0, 20.0, 60.0, 300.0)
"""Seconds before each new attempt."""

LONG = 600.0
"""Seconds after which an attempt has been a success, and the waits begin anew."""

T = TypeVar("T")


def persistent(opening: Callable[[], AbstractContextManager[LakeStore]], action: Callable[[LakeStore], T], say: Callable[[str], object]) -> T:
    """What `action` returns of the lake that `opening` opens, tried again with growing waits while it does not answer.

    Raises what the last attempt raised, and at once what happens before the lake was ever open: then the address is wrong.
    """
    was_open, waits = False, list(WAITS)
    while True:
        began = time.monotonic()
        try:
            with opening() as store:
                was_open = True
                return action(store)
        # errors of the storage are of the operating system's kind
        except (duckdb.Error, OSError, Unreachable) as error:
            if time.monotonic() - began > LONG:
                waits = list(WAITS)
            if not was_open or not waits:
                raise
            say(f"the lake stopped answering: {' '.join(str(error).split())}. What was loaded is kept; trying again in {waits[0]:.0f} s")
        time.sleep(waits.pop(0))
