"""Ask an activation atlas: `import atlas; a = atlas.open("demo.duckdb"); a.top_triggers(3, 17)`."""

from typing import TYPE_CHECKING, Any

import schema

if not getattr(schema, "__atlas__", False):
    raise ImportError(
        f"the installed package 'schema' ({schema.__file__}) belongs to another distribution, which overwrites files of activation-atlas. "
        "Uninstall that distribution, or install activation-atlas in an environment of its own."
    )

from atlas.address import Head, Neuron, parse_address
from schema.errors import AtlasError, Locked, NotAnAtlas, QueryRefused, QueryTimeout
from schema.platforms import require_unix

if TYPE_CHECKING:
    from pathlib import Path

    from atlas.api import Atlas

__all__ = [
    "Atlas",
    "AtlasError",
    "Head",
    "Locked",
    "Neuron",
    "NotAnAtlas",
    "QueryRefused",
    "QueryTimeout",
    "open",
    "parse_address",
]


def open(path: "Path | str", *, memory: str = "4GB") -> "Atlas":
    """Open an atlas read-only.

    `memory` is DuckDB's limit for this process, such as "4GB". Use the result as a context manager, or call its close().
    Raises NotAnAtlas if the file is missing, is not an atlas, or has another schema version; Locked if another process writes to it.
    """
    require_unix()
    from atlas.api import Atlas

    return Atlas(path, memory=memory)


def __getattr__(name: str) -> Any:
    """Import `atlas.Atlas` on demand, so that DuckDB and polars are imported when an atlas is opened, not before."""
    if name == "Atlas":
        from atlas.api import Atlas

        return Atlas
    raise AttributeError(f"module 'atlas' has no attribute '{name}'")
