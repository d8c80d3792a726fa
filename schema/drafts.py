"""Files that are written under a name of their own, and get the one they are for when they are whole."""

import re
import secrets
from pathlib import Path


def new_draft(target: Path) -> Path:
    """A name beside the target that nothing has: 64 of its bits are random."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def left_drafts(target: Path) -> list[Path]:
    """What writers of it left that were killed, logs of DuckDB's among it: names that nothing else gives. Theirs alone while the target's lock is held."""
    own = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.tmp(\.wal)?")
    return [path for path in target.parent.iterdir() if own.fullmatch(path.name)]


def discard(draft: Path) -> None:
    for path in (draft, Path(f"{draft}.wal")):
        path.unlink(missing_ok=True)
