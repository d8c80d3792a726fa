"""Refusal of an atlas in a process that was forked after one was opened: DuckDB's and polars' threads stay in the parent, and the fork would wait forever."""

import os
from dataclasses import dataclass

from schema.errors import AtlasError


@dataclass
class Process:
    """State of this process: whether it has opened an atlas, and whether it was forked from one that had."""

    has_opened: bool = False
    is_forked: bool = False

    def note_fork(self) -> None:
        """Mark this process as forked if the process before the fork had opened an atlas."""
        self.is_forked = self.is_forked or self.has_opened


PROCESS = Process()
os.register_at_fork(after_in_child=PROCESS.note_fork)


def note_opening() -> None:
    """Remember that this process opens an atlas. Raises AtlasError as `refuse_forked` does."""
    refuse_forked()
    PROCESS.has_opened = True


def refuse_forked() -> None:
    """Raise AtlasError in a process that was forked from one that had opened an atlas."""
    if PROCESS.is_forked:
        raise AtlasError(
            "this process was forked from one that had opened an atlas, and the threads that would answer stayed in that process. Start processes by spawn: "
            "multiprocessing.get_context('spawn'), DataLoader(multiprocessing_context='spawn'); joblib does so by itself. Or fork before the first "
            "atlas is opened, as gunicorn does without --preload. Then open the atlas in each process"
        )
