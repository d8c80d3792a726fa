"""Operating systems that the atlas runs on, and whether each limits the memory of a process."""

import sys

from schema.errors import AtlasError

LIMITS_MEMORY = sys.platform == "linux"
"""Whether the system ends a process that exceeds its limit of address space."""


def require_unix() -> None:
    """Raise AtlasError on Windows."""
    if sys.platform == "win32":
        raise AtlasError("activation-atlas runs on Linux and macOS: Windows lacks the file locks that it needs (flock). On Windows, use it in WSL")
