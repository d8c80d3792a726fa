"""Read a batch for one recorder, as a shard's reading does."""

from collections.abc import Callable

import numpy as np

from ingest.model.models import Model
from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.reading import n_tokens, read_batch
from ingest.recorders.torch_keys import TorchKeys
from ingest.recorders.trace_recorder import TraceRecorder
from ingest.recorders.traces import TracedStates, TraceSettings
from ingest.recorders.triggers import TriggerRecorder
from ingest.text.sequences import Sequence
from schema.terms import SITES


def sweep_batch(model: Model, keys: CpuKeys | TorchKeys, batch: tuple[Sequence, ...], progress: Callable[[int], None]) -> None:
    """Begins the statistics anew. progress: called with the tokens that each forward pass has read."""
    for part in read_batch(model, [(TriggerRecorder(keys, 0), None)], batch):
        progress(sum(map(n_tokens, part)))


def trace_batch(model: Model, batch: tuple[Sequence, ...], sample: np.ndarray) -> list[TracedStates]:
    """What each forward pass gave at the sampled positions."""
    recorder = TraceRecorder(model, np.empty(0), 0, TraceSettings(SITES, 5, 0))
    list(read_batch(model, [(recorder, sample)], batch))
    return list(recorder.parts.values())
