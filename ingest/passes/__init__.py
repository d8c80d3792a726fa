"""Passes: the kinds of run that an ingest can do. Each module of this folder but `base` defines one pass; other distributions add passes by entry points."""

from functools import cache

from ingest.passes.base import Pass, RecordingPass
from schema.errors import AtlasError
from schema.registry import list_folder, points

GROUP = "activation_atlas.passes"
"""Group of the entry points that add passes; each names an object of class Pass."""


@cache
def passes() -> dict[str, Pass]:
    """Map names to passes, in the order in which the passes run: by `depth`, at equal depth recording passes first, then by name.

    Raises AtlasError if an entry point's pass has the name of another pass, or names an unknown pass in `after`.
    """
    found: dict[str, Pass] = {each.name: each for each in list_folder(__name__, "PASS").values()}
    for point in points(GROUP):
        each = point.load()
        if each.name in found:
            raise AtlasError(f"entry point {point.name} of {GROUP}: {point.value} is a pass called {each.name}, but a pass of that name already exists")
        if unknown := sorted(set(each.after) - found.keys()):
            raise AtlasError(
                f"entry point {point.name} of {GROUP}: the pass {each.name} comes after {', '.join(unknown)}, which is unknown; "
                f"known passes: {', '.join(found)}"
            )
        found[each.name] = each
    return {each.name: each for each in sorted(found.values(), key=lambda each: (depth(each, found), not isinstance(each, RecordingPass), each.name))}


def depth(each: Pass, found: dict[str, Pass]) -> int:
    """Compute the length of the longest chain of passes before a pass, in which each pass is in the `after` of the next."""
    return max((1 + depth(found[name], found) for name in each.after), default=0)
