"""What a shard's arrays leave goes back to the system before the next."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np

from ingest.workers.pool import job
from ingest.workers.worker import Worker

PIECES, BYTES = 3000, 100_000


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_arrays_between_what_is_kept_are_given_back() -> None:
    arrays, kept = [], []
    for _ in range(PIECES):
        arrays.append(np.ones(BYTES, np.int8))
        kept.append(np.ones(1000, np.int8))
    worker = cast(Worker, SimpleNamespace(drop_all_but=lambda of: arrays.clear()))
    held = resident()
    job(0, 0, lambda worker, advance: {}).compute(worker, lambda run_id, n: None)
    assert held - resident() > PIECES * BYTES * 0.8
    assert len(kept) == PIECES
