"""Commands that run a module of this project in a process of its own, to contain the effects of untrusted content."""

import os
import sys
from pathlib import Path


def command_of(module: str) -> tuple[list[str], dict[str, str]]:
    """Build the command and the environment that run `module` in a separate Python process.

    -P keeps the current folder, which may be a stranger's, off the module path. USE_TORCH=0 lets transformers start without torch, in half a second.
    """
    root = Path(__file__).resolve().parents[1]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return [sys.executable, "-P", "-m", module], {**os.environ, "USE_TORCH": "0", "PYTHONPATH": path}
