"""The supported model families: each file's `FAMILIES` maps a model_type to its row of facts."""

from importlib import import_module
from types import SimpleNamespace


def __getattr__(name: str) -> SimpleNamespace:
    """Stand for the former module of one family, whose `FAMILY` other distributions may import; the next version removes it."""
    families = {} if name.startswith("_") else import_module("ingest.model.families.gpt").FAMILIES | import_module("ingest.model.families.llama").FAMILIES
    if name not in families:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return SimpleNamespace(FAMILY=families[name])
