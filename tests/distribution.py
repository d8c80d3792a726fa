"""Another distribution that is installed beside ours: nothing but its entry points."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from atlas import questions, reads
from schema import audits, release, table_facts, tables
from schema.open import kinds

CACHES = (
    questions.questions, reads.definitions, kinds.kinds, release.question_sources, release.release_digest, table_facts.facts,
    tables.modules, tables.metadata, audits.column_audit,
)  # fmt: skip
"""What is read of entry points once in a process."""


@contextmanager
def installed(folder: Path, groups: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Group → name → what it names, found in this process for the block; another finds them with `folder` in PYTHONPATH."""
    info = folder / "noise-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noise\nVersion: 0\n")
    lines = [line for group, points in groups.items() for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    sys.path.insert(0, str(folder))
    forget()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        forget()


def forget() -> None:
    for cached in CACHES:
        cached.cache_clear()
