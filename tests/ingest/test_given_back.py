"""What arrays leave goes back to the system: that of a shard before the next, that of large ones at once."""

import ctypes
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from ingest.workers.memory import apply_mmap_threshold
from ingest.workers.pool import job
from ingest.workers.worker import Worker

PIECES, BYTES = 3000, 100_000


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_arrays_between_what_is_kept_are_given_back() -> None:
    arrays, kept = [], []
    for _ in range(PIECES):
        arrays.append(np.ones(BYTES, np.int8))
        kept.append(np.ones(1000, np.int8))
    worker = cast(Worker, SimpleNamespace(drop_all_but=lambda of: arrays.clear()))
    held = resident()
    job(0, 0, lambda worker, advance: {}).compute(worker, lambda run_id, n: None)
    assert held - resident() > PIECES * BYTES * 0.8
    assert len(kept) == PIECES


class Allocated(ctypes.Structure):
    """mallinfo2 of glibc's malloc.h; hblks: how many arrays are mapped by themselves."""

    _fields_ = tuple(
        (name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    )


def mapped(n: int) -> int:
    """How many of n arrays of 8 MB are mapped by themselves."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Allocated
    before = ask().hblks
    arrays = [np.ones(8 << 20, np.int8) for _ in range(n)]
    found = ask().hblks - before
    assert len(arrays) == n
    return found


def mapped_within_and_after(n: int) -> tuple[int, int]:
    with apply_mmap_threshold(1 << 22):
        within = mapped(n)
    return within, mapped(n)


@pytest.mark.thorough
def test_large_arrays_are_mapped_for_a_while() -> None:
    """In a process of its own: what other tests have left free in the heap may hold all of the arrays, and then none is mapped."""
    with get_context("spawn").Pool(1) as process:
        assert process.apply(mapped_within_and_after, (30,)) == (30, 0)
