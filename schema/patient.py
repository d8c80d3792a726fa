"""DuckDB in the main thread, protected from Ctrl-C.

DuckDB turns a KeyboardInterrupt that is raised while it runs into an error of its own: a RuntimeError, or std::terminate if it was calling Python. So the
signal handler only records the signal and asks DuckDB to stop; KeyboardInterrupt is raised once DuckDB has returned.
"""

import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, TypeVar, cast

import duckdb

T = TypeVar("T")


def make_interrupt_safe(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Wrap the connection so that Ctrl-C ends each of its calls in the same way: with KeyboardInterrupt, once DuckDB has stopped."""
    return cast(duckdb.DuckDBPyConnection, InterruptSafeConnection(con))


class InterruptSafeConnection:
    """Stand-in for a connection that defers Ctrl-C until a call has ended."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.con, name)
        return partial(self.call, found) if callable(found) else found

    def call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        result = defer_interrupts(partial(method, *arguments, **options), self.con.interrupt)
        # execute returns its connection, of which the result is fetched next
        return self if result is self.con else result


def defer_interrupts(run: Callable[[], T], interrupt: Callable[[], object] = lambda: None) -> T:
    """Return run(). If Ctrl-C is pressed meanwhile, call `interrupt`, and raise KeyboardInterrupt once `run` has ended, however it ended."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return run()
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)
        interrupt()

    signal.signal(signal.SIGINT, note)
    try:
        # one that came before run has begun would be lost on DuckDB
        return cast(T, None) if came else run()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt
