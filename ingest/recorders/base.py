"""Interfaces of recorders of forward passes. Several recorders may share one forward pass, and each names the sites that it wants."""

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
    """Sequences of a forward pass, and the rows of each state that a recorder gets: all rows, padding included, or those at its sampled positions.

    The arrays are [rows]. position_ids: -1 for padding. indices: index of each row in its sequence. next_token_ids: the corpus token that follows, -1 if
    none does.
    """

    sequences: tuple[Sequence, ...]
    position_ids: np.ndarray
    indices: np.ndarray
    next_token_ids: np.ndarray

    def select_rows(self, rows: np.ndarray) -> "Batch":
        """Select some of the rows, and the sequences that contain them."""
        first = np.unique(self.position_ids[rows] - self.indices[rows])
        sequences = tuple(s for s in self.sequences if s.first_position_id in first)
        return Batch(sequences, self.position_ids[rows], self.indices[rows], self.next_token_ids[rows])


class ForwardRecorder(Protocol):
    """Recorder of forward passes.

    The states that it gets are [rows, width], with the rows of the batch. Attention weights are [batch, n_heads, seq, seq] or, for sampled positions,
    [rows, n_heads, seq]. All that is recorded at sampled positions is float32. The context and the outputs of projections cover the batch's whole sequences:
    [sequences, longest, …].

    If memory runs out within a forward pass, the batch comes again in parts. The recorder must forget what it took from the unfinished pass, or skip that in
    the parts.
    """

    @property
    def sites(self) -> frozenset[str]:
        """Names of what the recorder wants from each layer, among RECORDED, ATTENDED, KEY, PROJECTED and PATTERN (ingest/model/hooks.py)."""

    def begin(self, batch: Batch) -> None:
        """Prepare for a forward pass over this batch."""

    def take(self, layer: int, record: LayerRecord) -> None:
        """Take a layer's record. Called for one layer after the other, as soon as everything wanted from the layer has been computed."""


class Recorder(ForwardRecorder, Resumable, Protocol):
    """Recorder of one shard."""

    def tables(self, progress: Progress) -> Tables:
        """Build the shard's tables, except those of its texts, once it has been read. progress: called with shares of the remaining computation."""


class ResumableRecorder:
    """Recorder whose state is saved and restored from the attributes named in `held`."""

    held: ClassVar[tuple[str, ...]]

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.held}

    def restore(self, state: dict[str, Any]) -> None:
        for name in self.held:
            setattr(self, name, state[name])


Make = Callable[[Worker], Recorder]
"""Function that makes the recorder of a shard. It is pickled and sent to the worker that calls it."""


@dataclass(frozen=True)
class ReadRequest:
    """What one run wants recorded while texts are read.

    make: makes the run's recorder. sample: position_ids to record, ascending; None for all. settings: the run's settings, as JSON.
    """

    run_id: int
    make: Make
    sample: np.ndarray | None
    settings: str
