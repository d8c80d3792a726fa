"""What records a forward pass: several recorders may share one, each with the sites it wants."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ingest.model.hooks import Listener
from ingest.text.sequences import Sequence
from ingest.workers.worker import Tables, Worker


@dataclass(frozen=True)
class Batch:
    """What a forward pass reads, and the rows that are kept of every state: all, padding included, or those at sampled positions.

    position_ids: of each row, -1 where padded. indices: its place in its sequence. next_token_ids: the corpus token that follows, -1 for none. All [rows].
    """

    sequences: tuple[Sequence, ...]
    position_ids: np.ndarray
    indices: np.ndarray
    next_token_ids: np.ndarray

    def chosen(self, rows: np.ndarray) -> "Batch":
        """Of these rows alone."""
        return Batch(self.sequences, self.position_ids[rows], self.indices[rows], self.next_token_ids[rows])


class Recorder(Listener, Protocol):
    """Records one shard. The records it takes have the rows of the batch: [rows, width].

    Where memory runs out within a forward pass, the batch comes again in parts: what a recorder took of the unfinished pass it forgets, or
    leaves out of the parts.
    """

    def begin(self, batch: Batch) -> None:
        """A forward pass begins."""

    def tables(self) -> Tables:
        """What the shard holds beside its texts, once all of it was read."""


Make = Callable[[Worker], Recorder]
"""Makes the recorder of a shard, at the worker. It is pickled on its way there."""
