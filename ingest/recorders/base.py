"""What records a forward pass: several recorders may share one, each with the sites it wants."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ingest.model.hooks import LayerRecord
from ingest.text.sequences import Sequence
from ingest.workers.begun import Resumable
from ingest.workers.worker import Progress, Tables, Worker


@dataclass(frozen=True)
class Batch:
    """What a forward pass reads, and the rows that a recorder has of every state: all, padding included, or those at its sampled positions.

    position_ids: of each row, -1 where padded. indices: its place in its sequence. next_token_ids: the corpus token that follows, -1 for none. All [rows].
    """

    sequences: tuple[Sequence, ...]
    position_ids: np.ndarray
    indices: np.ndarray
    next_token_ids: np.ndarray

    def select_rows(self, rows: np.ndarray) -> "Batch":
        """Select these rows alone, and the sequences that they are in."""
        first = np.unique(self.position_ids[rows] - self.indices[rows])
        sequences = tuple(s for s in self.sequences if s.first_position_id in first)
        return Batch(sequences, self.position_ids[rows], self.indices[rows], self.next_token_ids[rows])


class ForwardRecorder(Protocol):
    """Hears forward passes. The records it takes have the rows of the batch: [rows, width], float32 where they are of sampled positions.
    Attention weights come whole, [batch, n_heads, seq, seq], or as [rows, n_heads, seq] float32 of sampled positions.
    The context and what projections give have the batch's sequences whole: [sequences, longest, …].

    Where memory runs out within a forward pass, the batch comes again in parts: what it took of the unfinished pass it forgets, or
    leaves out of the parts.
    """

    @property
    def sites(self) -> frozenset[str]:
        """Which of RECORDED, ATTENDED and PROJECTED it wants, and PATTERN (ingest/model/hooks.py)."""

    def begin(self, batch: Batch) -> None:
        """Note that a forward pass over this batch begins."""

    def take(self, layer: int, record: LayerRecord) -> None:
        """Take what is wanted of a layer; called layer by layer, as soon as all of it has been computed."""


class Recorder(ForwardRecorder, Resumable, Protocol):
    """Records one shard."""

    def tables(self, progress: Progress) -> Tables:
        """Build the tables that the shard holds beside its texts, once all of it was read. progress: called with shares of what is left to compute."""


class ResumableRecorder:
    """A recorder that holds what it heard in these attributes."""

    held: ClassVar[tuple[str, ...]]

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.held}

    def restore(self, state: dict[str, Any]) -> None:
        for name in self.held:
            setattr(self, name, state[name])


Make = Callable[[Worker], Recorder]
"""Makes the recorder of a shard, at the worker. It is pickled on its way there."""


@dataclass(frozen=True)
class ReadRequest:
    """What one run asks of a reading. make: of its recorder; sample: position_ids to record, ascending, None for every one; settings: the run's, as JSON."""

    run_id: int
    make: Make
    sample: np.ndarray | None
    settings: str
