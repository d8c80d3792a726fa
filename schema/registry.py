"""The registry of extensions: each is a file in a folder of ours, or is named by an entry point of another distribution (docs/reference/adding.md)."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Any, TypeVar

from schema.errors import AtlasError

T = TypeVar("T")


def list_folder(package: str, attribute: str) -> dict[str, Any]:
    """Collect the mappings named `attribute` of all modules of a package except `base` into one, in order of name.

    Raises ValueError for a name that two modules have.
    """
    found = dict[str, Any]()
    for module in iter_modules(import_module(package).__path__):
        if module.name != "base":
            parts = getattr(import_module(f"{package}.{module.name}"), attribute)
            if twice := parts.keys() & found.keys():
                raise ValueError(f"{package}.{module.name} names again {', '.join(sorted(twice))}")
            found |= parts
    return dict(sorted(found.items()))


def find_parts(
    group: str,
    ours: Mapping[str, T],
    read: Callable[[EntryPoint], Mapping[str, T]] | None = None,
    check: Callable[[T, Mapping[str, T]], None] = lambda part, found: None,
) -> dict[str, T]:
    """Map the name of each part to the part: ours, then those of a group's entry points.

    read: reads the parts that an entry point names; None if that is a part with a name. check: raises AtlasError for a part that does not fit the others; it is
    called with the parts that entry points bring, and all parts.
    Raises AtlasError for an entry point that cannot be read, and for two parts of one name; the message names the distributions.
    """
    found, brought = dict(ours), dict[str, EntryPoint]()
    for point in list_points(group):
        with blame_distribution(point):
            parts = read(point) if read else key_by_name(point.load())
            if not isinstance(parts, Mapping) or not all(isinstance(name, str) for name in parts):
                raise AtlasError(f"it gives {type(parts).__name__}, which must be a mapping from names")
        if twice := sorted(parts.keys() & found.keys()):
            first = describe_point(brought[twice[0]]) if twice[0] in brought else "activation-atlas itself"
            raise AtlasError(f"'{twice[0]}' is brought twice, by {first} and by {describe_point(point)}: rename one, or uninstall a distribution")
        found |= parts
        brought |= dict.fromkeys(parts, point)
    for name, point in brought.items():
        with blame_distribution(point):
            check(found[name], found)
    return found


def key_by_name(*parts: Any) -> dict[str, Any]:
    return {part.name: part for part in parts}


@contextmanager
def blame_distribution(point: EntryPoint) -> Iterator[None]:
    """Turn any error inside into an AtlasError of one line that names the distribution of an entry point."""
    try:
        yield
    except Exception as error:
        said = " ".join(str(error).split())
        raise AtlasError(f"{describe_point(point)} is broken: {said if isinstance(error, AtlasError) else f'{type(error).__name__}: {said}'}") from error


def describe_point(point: EntryPoint) -> str:
    """Name an entry point and its distribution."""
    brought_by = f"{point.dist.name} {point.dist.version}" if point.dist else "activation-atlas itself"
    return f"the entry point {point.name} = {point.value} of {point.group} ({brought_by})"


def list_points(group: str) -> list[EntryPoint]:
    """List the entry points of a group in all distributions, by name."""
    return sorted(all_points(tuple(sys.path)).select(group=group), key=lambda point: (point.name, point.value))


@lru_cache(maxsize=1)
def all_points(_: tuple[str, ...]) -> Any:
    """Find all entry points; their type differs between versions of Python.

    The result is cached, since searching the folders of the path takes longer than most answers do.
    """
    return entry_points()
