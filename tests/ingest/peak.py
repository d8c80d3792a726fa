"""The most memory that tensors take at once, as the allocator counts it: the same on every machine and in every run."""

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak(compute: Callable[[], object]) -> int:
    """Bytes of the CPU tensors that `compute` makes, at the moment when they are most."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = compute()
    del result
    held = most = 0
    for event in sorted((event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"), key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
