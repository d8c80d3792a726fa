"""Registries that grow without edits to existing code: the modules of a folder, and the entry points of installed distributions."""

import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Any


def list_folder(package: str, attribute: str) -> dict[str, Any]:
    """Map the name of every module of a package except `base`, in order of name, to its attribute named `attribute`."""
    names = sorted(found.name for found in iter_modules(import_module(package).__path__) if found.name != "base")
    return {name: getattr(import_module(f"{package}.{name}"), attribute) for name in names}


def points(group: str) -> tuple[EntryPoint, ...]:
    """Find the entry points of a group in all distributions."""
    return tuple(all_points(tuple(sys.path)).select(group=group))


@lru_cache(maxsize=1)
def all_points(_: tuple[str, ...]) -> Any:
    """Find all entry points; their type differs between versions of Python.

    The result is cached, since searching the folders of the path takes longer than most answers do.
    """
    return entry_points()
