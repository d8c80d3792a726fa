"""Recorders of forward passes: several may share one pass, each with the sites that it wants."""

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
    """Sequences that a forward pass reads, and the rows that a recorder gets of every state: all, padding included, or those at its sampled positions.

    position_ids: of each row, -1 for padding. indices: its index in its sequence. next_token_ids: the corpus token that follows, -1 if there is none. All
    [rows].
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
    """Recorder of forward passes. Its records have the rows of the batch: [rows, width], float32 if they are of sampled positions. Attention weights come
    whole, [batch, n_heads, seq, seq], or as [rows, n_heads, seq] float32 of sampled positions. The context and the outputs of projections have the batch's
    sequences whole: [sequences, longest, …].

    If memory runs out within a forward pass, the batch comes again in parts: the recorder forgets what it took of the unfinished pass, or leaves it out of the
    parts.
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
    """Recorder whose state is saved and restored from the attributes named in `held`."""

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
    """Request of one run to a reading. make: makes its recorder; sample: position_ids to record, ascending, None for all; settings: the run's, as JSON."""

    run_id: int
    make: Make
    sample: np.ndarray | None
    settings: str
