"""What the installed distributions offer by entry point."""

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, of all distributions."""
    return tuple(found(tuple(sys.path)).select(group=group))


@lru_cache(maxsize=1)
def found(_: tuple[str, ...]) -> Any:
    """All of them, of a type that differs between versions of Python: the folders on the path are looked through once, which takes longer than most answers."""
    return entry_points()
