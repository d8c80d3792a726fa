"""The kinds of experiments that a command runs: each file of this folder has `KINDS`, and those that other distributions add."""

import re
from collections.abc import Mapping
from functools import cache

from ingest.experiments.base import Kind
from schema.errors import AtlasError
from schema.registry import find_parts, list_folder

GROUP = "activation_atlas.experiment_kinds"
"""Group of the entry points that name a `Kind`."""

NAME = re.compile("[a-z][a-z0-9_-]{0,59}")
"""Pattern of a kind's name, the same as in atlas/beside/experiments/audits/kinds_named.sql."""


@cache
def kinds() -> dict[str, Kind]:
    """Map each kind's name to the kind, sorted by name.

    Raises AtlasError for an entry point that is broken, or whose kind has a name that is taken or does not match NAME.
    """
    return dict(sorted(find_parts(GROUP, list_folder(__name__, "KINDS"), check=check_name).items()))


def check_name(kind: Kind, _: Mapping[str, Kind]) -> None:
    """Raise AtlasError for a kind whose name does not match NAME."""
    if not NAME.fullmatch(kind.name):
        raise AtlasError(f"kind {kind.name!r}: the name of a kind has only small letters, digits, - and _, begins with a letter, and has at most 60 characters")


def kind_named(name: str) -> Kind:
    if name not in kinds():
        raise AtlasError(f"kind '{name}' is unknown; there are {', '.join(kinds())}")
    return kinds()[name]
