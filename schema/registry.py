"""What can be added without an edit of what there is: modules of a folder, and what installed distributions name in their entry points."""

import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Any


def list_folder(package: str, attribute: str) -> dict[str, Any]:
    """Name → the attribute of that name, of every module of a package but `base`, by name."""
    names = sorted(found.name for found in iter_modules(import_module(package).__path__) if found.name != "base")
    return {name: getattr(import_module(f"{package}.{name}"), attribute) for name in names}


def points(group: str) -> tuple[EntryPoint, ...]:
    """Find the entry points of a group, of all distributions."""
    return tuple(all_points(tuple(sys.path)).select(group=group))


@lru_cache(maxsize=1)
def all_points(_: tuple[str, ...]) -> Any:
    """Find all entry points, of a type that differs between versions of Python; once, since the search of the path's folders takes longer than most answers."""
    return entry_points()
