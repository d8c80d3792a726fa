"""The kinds of experiments that a command runs: one file each in this folder, and those that other distributions add."""

import re
from functools import cache

from ingest.experiments.base import Kind
from schema.errors import AtlasError
from schema.registry import list_folder, points

GROUP = "activation_atlas.experiment_kinds"
"""Group of the entry points that name a `Kind`."""

NAME = re.compile("[a-z][a-z0-9_-]{0,59}")
"""Pattern of a kind's name, the same as in atlas/beside/experiments/audits/kinds_named.sql."""


@cache
def kinds() -> dict[str, Kind]:
    """Map each kind's name to the kind, sorted by name. Raises AtlasError for an entry point whose kind has a name that is taken or does not match NAME."""
    found: dict[str, Kind] = {kind.name: kind for kind in list_folder(__name__, "KIND").values()}
    for point in points(GROUP):
        kind = point.load()
        if kind.name in found:
            raise AtlasError(f"entry point {point.name} of {GROUP}: {point.value} is a kind called {kind.name}, a name that is taken")
        if not NAME.fullmatch(kind.name):
            raise AtlasError(f"entry point {point.name} of {GROUP}: the name of the kind {kind.name!r} may have small letters, digits, - and _, at most 60")
        found[kind.name] = kind
    return dict(sorted(found.items()))


def kind_named(name: str) -> Kind:
    if name not in kinds():
        raise AtlasError(f"kind '{name}' is unknown; there are {', '.join(kinds())}")
    return kinds()[name]
