"""Passes: the kinds of run that an ingest can do. Each module of this folder but `base` has `PASSES`; other distributions add passes by entry points."""

from collections.abc import Mapping
from functools import cache

from ingest.passes.base import Pass, RecordingPass
from schema.errors import AtlasError
from schema.registry import find_parts, list_folder

GROUP = "activation_atlas.passes"
"""Group of the entry points that add passes; each names an object of class Pass."""


@cache
def passes() -> dict[str, Pass]:
    """Map names to passes, in the order in which the passes run: by `depth`, at equal depth recording passes first, then by name.

    Raises AtlasError for an entry point that is broken, and for one whose pass has a name that is taken, or comes after itself or a pass that does not exist.
    """
    found: dict[str, Pass] = find_parts(GROUP, list_folder(__name__, "PASSES"), check=require_known)
    return {each.name: each for each in sorted(found.values(), key=lambda each: (depth(each, found), not isinstance(each, RecordingPass), each.name))}


def require_known(each: Pass, found: Mapping[str, Pass]) -> None:
    """Raise AtlasError for a pass that comes after one that is not there, or after itself."""
    if unknown := sorted(set(each.after) - found.keys()):
        raise AtlasError(f"the pass {each.name} comes after {', '.join(unknown)}; there are {', '.join(found)}")
    earlier, new = set[str](), {*each.after}
    while new:
        earlier |= new
        new = {name for before in new if before in found for name in found[before].after} - earlier
    if each.name in earlier:
        raise AtlasError(f"the pass {each.name} comes after itself, by way of {', '.join(sorted(earlier - {each.name})) or 'nothing else'}")


def depth(each: Pass, found: dict[str, Pass]) -> int:
    """Compute the length of the longest chain of passes before a pass, in which each pass is in the `after` of the next."""
    return max((1 + depth(found[name], found) for name in each.after), default=0)
