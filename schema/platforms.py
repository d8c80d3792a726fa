"""The systems that this runs on, and what one of them does not do."""

import sys

from schema.errors import AtlasError

LIMITS_MEMORY = sys.platform == "linux"
"""Whether the system ends a process that takes more address space than it may."""


def require_unix() -> None:
    """Raise AtlasError on Windows."""
    if sys.platform == "win32":
        raise AtlasError("activation-atlas runs on Linux and macOS: Windows has no such locks of files as it needs (flock). Use it there in WSL")
