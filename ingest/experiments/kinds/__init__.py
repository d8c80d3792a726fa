"""The kinds of experiments that a command runs: a file of this folder each, and those that other distributions add."""

import re
from functools import cache

from ingest.experiments.base import Kind
from schema.errors import AtlasError
from schema.registry import list_folder, points

GROUP = "activation_atlas.experiment_kinds"
"""Entry points that are a `Kind`."""

NAME = re.compile("[a-z][a-z0-9_-]{0,59}")
"""As atlas/beside/experiments/audits/kinds_named.sql has it."""


@cache
def kinds() -> dict[str, Kind]:
    """Name → kind, by name. Raises AtlasError for an entry point whose kind has the name of another, or one that no file keeps."""
    found: dict[str, Kind] = {kind.name: kind for kind in list_folder(__name__, "KIND").values()}
    for point in points(GROUP):
        kind = point.load()
        if kind.name in found:
            raise AtlasError(f"entry point {point.name} of {GROUP}: {point.value} is a kind called {kind.name}, which is there already")
        if not NAME.fullmatch(kind.name):
            raise AtlasError(f"entry point {point.name} of {GROUP}: the kind {kind.name!r} is to be named by small letters, digits, - and _, at most 60")
        found[kind.name] = kind
    return dict(sorted(found.items()))


def kind_named(name: str) -> Kind:
    if name not in kinds():
        raise AtlasError(f"kind '{name}' is unknown; there are {', '.join(kinds())}")
    return kinds()[name]
