"""The kinds of experiments that a command runs: a file of this folder each, and those that other distributions add."""

from functools import cache

from ingest.experiments.base import Kind
from schema.errors import AtlasError
from schema.registry import list_folder, points

GROUP = "activation_atlas.experiment_kinds"
"""Entry points that are a `Kind`."""


@cache
def kinds() -> dict[str, Kind]:
    """Name → kind, by name."""
    return {
        kind.name: kind for kind in sorted([*list_folder(__name__, "KIND").values(), *(point.load() for point in points(GROUP))], key=lambda kind: kind.name)
    }


def kind_named(name: str) -> Kind:
    if name not in kinds():
        raise AtlasError(f"kind '{name}' is unknown; there are {', '.join(kinds())}")
    return kinds()[name]
