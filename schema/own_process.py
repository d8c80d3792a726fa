"""Modules of ours as processes of their own, in which what is anybody's is limited."""

import os
import sys
from pathlib import Path


def command_of(module: str) -> tuple[list[str], dict[str, str]]:
    """Build a command and its environment.

    -P: the folder that it is started in may be a stranger's, and its files are no modules. Without torch transformers starts in half a second.
    """
    root = Path(__file__).resolve().parents[1]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return [sys.executable, "-P", "-m", module], {**os.environ, "USE_TORCH": "0", "PYTHONPATH": path}
