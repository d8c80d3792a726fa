"""What tests wait for is something that happens. The limit ends a hang, and is none of what is tested."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

HANG_S = 120.0
"""More than anything takes on a busy machine, and less than a test may."""

COMPUTED_S = 0.2
"""Processor seconds, which grow with what is done and not with what others do."""


def wait_until(happened: Callable[[], object], what: str, pause: float = 0.02) -> None:
    """Look again and again, `pause` seconds apart. Raises AssertionError that says what has not happened."""
    end = time.monotonic() + HANG_S
    while not happened():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(pause)


def stat(pid: int) -> list[str]:
    """Fields of a process from its state on; nothing where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def has_ended(pid: int) -> bool:
    """Whether a process has closed what it had open, also where nobody has asked about it yet."""
    return (stat(pid) or ["X"])[0] in "ZX"


def child_at_statement(pid: int) -> int:
    """The process that runs a typed statement for another, once it has computed for two processor seconds, most of them at its statement."""
    found: list[int] = []

    def is_at_it() -> bool:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            fields = stat(int(child))
            if fields and b"atlas.typed.sandbox_child" in Path(f"/proc/{child}/cmdline").read_bytes() and int(fields[11]) > 2 * os.sysconf("SC_CLK_TCK"):
                found.append(int(child))
        return bool(found)

    wait_until(is_at_it, "a statement is computed")
    return found[0]


def once_it_computes(act: Callable[[], object]) -> None:
    """Do something from another thread once this process has computed for a while from now on: a statement that follows is at work by then."""

    def watch() -> None:
        begun = time.process_time()
        wait_until(lambda: time.process_time() > begun + COMPUTED_S, "this process computes")
        act()

    Thread(target=watch, daemon=True).start()
