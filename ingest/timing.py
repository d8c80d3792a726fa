"""Time pieces of the work, for a dry run."""

import time
from collections.abc import Callable


def timed(action: Callable[[], object]) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def fastest(action: Callable[[], object]) -> float:
    """Seconds of the faster of two runs: the first may fill caches and grow the heap."""
    return min(timed(action), timed(action))
