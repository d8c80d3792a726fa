"""Passes: the kinds of run that an ingest can be asked for. Each file of this folder is one; other distributions add theirs by entry points."""

from functools import cache

from ingest.passes.base import Pass, RecordingPass
from schema.errors import AtlasError
from schema.registry import list_folder, points

GROUP = "activation_atlas.passes"
"""Entry points that name an object of class Pass."""


@cache
def passes() -> dict[str, Pass]:
    """Map names to passes, in the order in which they run: each behind those in its `after`, and at the same depth recording passes first.

    Raises AtlasError for an entry point whose pass has a name that is taken, or comes after a pass that does not exist.
    """
    found: dict[str, Pass] = {each.name: each for each in list_folder(__name__, "PASS").values()}
    for point in points(GROUP):
        each = point.load()
        if each.name in found:
            raise AtlasError(f"entry point {point.name} of {GROUP}: {point.value} is a pass called {each.name}, which is there already")
        if unknown := sorted(set(each.after) - found.keys()):
            raise AtlasError(f"entry point {point.name} of {GROUP}: the pass {each.name} comes after {', '.join(unknown)}; there are {', '.join(found)}")
        found[each.name] = each
    return {each.name: each for each in sorted(found.values(), key=lambda each: (depth(each, found), not isinstance(each, RecordingPass), each.name))}


def depth(each: Pass, found: dict[str, Pass]) -> int:
    """Count the passes, one reading from the other, that come before a pass."""
    return max((1 + depth(found[name], found) for name in each.after), default=0)
