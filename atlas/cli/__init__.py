"""The command line. Nothing heavy is imported here: `atlas --help` answers at once, and each command imports what it needs."""

from atlas.cli.main import main

__all__ = ["main"]
