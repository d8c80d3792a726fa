"""What an experiment that runs says of itself: one line that changes, on a terminal; elsewhere a line a part, with the time that is left."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from ingest.experiments.driver import Tell


@contextmanager
def telling(to: TextIO) -> "Iterator[Tell]":
    width, began, last = 0, time.monotonic(), ""

    def tell(what: str, share: float = 0.0) -> None:
        nonlocal width, last
        line = f"{what} {share:.0%}" if share else what
        if to.isatty():
            to.write(f"\r{line:<{width}}\r")
            width = len(line)
        elif what != last:
            to.write(f"{time.monotonic() - began:8.1f} s  {what}\n")
            last = what
        to.flush()

    try:
        yield tell
    finally:
        if to.isatty():
            tell("")
