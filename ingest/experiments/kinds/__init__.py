"""The kinds of experiments that a command runs. A file of this folder is one."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from ingest.experiments.base import Kind
from schema.errors import AtlasError


@cache
def kinds() -> dict[str, Kind]:
    """Name → kind, by name."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return {module.KIND.name: module.KIND for module in sorted(modules, key=lambda module: module.KIND.name)}


def kind_named(name: str) -> Kind:
    if name not in kinds():
        raise AtlasError(f"kind '{name}' is unknown; there are {', '.join(kinds())}")
    return kinds()[name]
