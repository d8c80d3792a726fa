"""What the soak measures of processes and folders, and whether it has grown."""

import os
import statistics
import time
from dataclasses import dataclass, fields
from pathlib import Path

SHARE, MEGABYTES, HANDLES = 0.15, 40, 10
"""How much more of memory, and how many more handles, the last quarter may have than the first: caches fill, allocators keep what was freed.
Streamlit keeps a session, with three handles, for two minutes after its window has gone."""

GONE_AFTER_S = 60
"""Names that an opening needs go by themselves well before."""


@dataclass(frozen=True)
class Usage:
    """Resident memory of a process in MB, and its open file descriptors."""

    megabytes: float = 0.0
    handles: int = 0

    def most(self, other: "Usage") -> "Usage":
        return Usage(max(self.megabytes, other.megabytes), max(self.handles, other.handles))


@dataclass(frozen=True)
class Row:
    """The state at one moment; `ingest` is the most that any of the killed had since the row before."""

    minute: float
    ingests: int
    kills: int
    snapshots: int
    disk_mb: float
    ingest: Usage
    steady: Usage
    reader: Usage
    ui: Usage
    orphans: int

    def __str__(self) -> str:
        values = (getattr(self, f.name) for f in fields(self))
        return " ".join(f"{v.megabytes:7.0f} {v.handles:4}" if isinstance(v, Usage) else f"{v:9.1f}" if isinstance(v, float) else f"{v:9}" for v in values)


HEAD = " ".join(f"{f.name + ' MB':>7} {'fds':>4}" if f.type is Usage else f"{f.name:>9}" for f in fields(Row))


def usage(pid: int) -> Usage:
    """Nothing for a process that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return Usage(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))
    # one that has ended and is not yet waited for shows its handles to root alone
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return Usage()


def size_mb(folder: Path) -> float:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6


def orphans(folder: Path, own: set[str]) -> list[str]:
    """What lies in a folder beside what belongs there, and stays: others may open the atlas all the while, each under a name that goes."""
    end = time.monotonic() + GONE_AFTER_S
    left = {p.name for p in folder.iterdir()} - own
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left &= {p.name for p in folder.iterdir()}
    return sorted(left)


def grown(rows: list[Row]) -> list[str]:
    """Every figure whose median over the last quarter of the rows is beyond that over the first by more than is allowed."""
    quarter = max(1, len(rows) // 4)
    found = []

    def compare(name: str, figures: list[float], allowed: float, unit: str) -> None:
        first, last = statistics.median(figures[:quarter]), statistics.median(figures[-quarter:])
        if last > first * (1 + (SHARE if unit == "MB" else 0)) + allowed:
            found.append(f"{name} grew from {first:.0f} to {last:.0f} {unit}")

    for name in ("ingest", "steady", "reader", "ui"):
        of = [getattr(row, name) for row in rows]
        compare(name, [u.megabytes for u in of], MEGABYTES, "MB")
        compare(name, [float(u.handles) for u in of], HANDLES, "handles")
    compare("the disk", [row.disk_mb for row in rows], 1, "MB")
    return found
