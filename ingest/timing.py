"""Timing of computations, for estimates before a run."""

import time
from collections.abc import Callable

import torch


def measure_seconds(action: Callable[[], object]) -> float:
    """Measure the seconds that an action takes."""
    await_gpus()
    start = time.perf_counter()
    action()
    await_gpus()
    return time.perf_counter() - start


def await_gpus() -> None:
    """Wait until the GPUs have finished all work queued on them: a call returns as soon as its work is queued."""
    if torch.cuda.is_initialized():
        for gpu in range(torch.cuda.device_count()):
            # one that this process does not use would be made ready, which takes memory
            if torch.cuda.memory_reserved(gpu):
                torch.cuda.synchronize(gpu)


def fastest_seconds(action: Callable[[], object]) -> float:
    """Measure an action twice, and return the seconds of the faster run: the first may fill caches and grow the heap."""
    return min(measure_seconds(action), measure_seconds(action))
