"""Compute one shard: model and corpus in, tables out. A worker never touches the database.

A shard's batches are a function of the shard alone (its sequences, longest first), so a shard computed twice on one
device, with as many threads, is the same to the bit; where a batch had to be split for want of memory, to rounding.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import torch

from ingest.model.device import in_parts, sent
from ingest.model.hooks import capture, record_sites
from ingest.model.models import Model
from ingest.paper import paper_shard
from ingest.recorders.clusters import cluster_rows
from ingest.recorders.keys import Add, CpuKeys
from ingest.recorders.rows import statistics_rows, text_tables, trigger_rows
from ingest.recorders.torch_keys import TorchKeys, new_keys
from ingest.recorders.traces import TracedStates, TraceSettings, joined, trace_tables
from ingest.recorders.values import all_unit_values, weight_tables
from ingest.text.sequences import CutDocument, Sequence
from schema.terms import SITES

PAD = 0
"""Token id in padded places; causal attention keeps it from every real position, and it never becomes a position."""

Progress = Callable[[float], None]
"""Called with what has just been done, in the units of the run's progress bar."""

T = TypeVar("T")


class Worker:
    """A model in memory, and what it carries from one shard to the next. Every method but `kept` computes one shard."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.held: tuple[object, object] = (None, None)

    def kept(self, name: object, make: Callable[[], T]) -> T:
        """What the shards of one run share; that of another run is dropped."""
        if self.held[0] != name:
            self.held = (name, make())
        return self.held[1]  # type: ignore[return-value]

    def keys(self, run_id: int, k: int) -> CpuKeys | TorchKeys:
        """The reductions of a sweep."""
        return self.kept(run_id, lambda: new_keys(self.model, k))

    def weights(self, progress: Progress, *, run_id: int, layer: int) -> dict[str, pa.Table]:
        tables = weight_tables(self.model, layer, self.kept(run_id, lambda: all_unit_values(self.model)))
        progress(1)
        return tables

    def sweep(self, progress: Progress, *, run_id: int, k: int, documents: list[CutDocument], corpus_id: int, batch_size: int) -> dict[str, pa.Table]:
        return sweep_shard(self.model, self.keys(run_id, k), documents, corpus_id, batch_size, progress)

    def trace(self, progress: Progress, *, sample: np.ndarray, **of: Any) -> dict[str, pa.Table]:
        return trace_shard(self.model, sample=sample, progress=progress, **of) if len(sample) else {}

    def paper(self, progress: Progress, *, cost: float, **of: Any) -> dict[str, pa.Table]:
        return shared_out(lambda share: paper_shard(self.model, progress=share, **of), progress, cost)

    def clusters(self, progress: Progress, *, cost: float, seed: int) -> dict[str, pa.Table]:
        return shared_out(lambda share: {"value_cluster": cluster_rows(self.model, seed, share)}, progress, cost)

    def nothing(self, progress: Progress, *, cost: float) -> dict[str, pa.Table]:
        """What the atlas has already."""
        progress(cost)
        return {}


def shared_out(compute: Callable[[Progress], T], progress: Progress, cost: float) -> T:
    """Compute something that says what share of itself it has just done, and report that as parts of `cost`, in the end all of it."""
    done = 0.0

    def share(of_it: float) -> None:
        nonlocal done
        done += of_it
        progress(of_it * cost)

    result = compute(share)
    progress((1 - done) * cost)
    return result


def batches(sequences: Iterable[Sequence], batch_size: int) -> Iterator[tuple[Sequence, ...]]:
    """Sequences by falling length, so that little is padded."""
    ordered = sorted(sequences, key=lambda s: -len(s.token_ids))
    return (tuple(ordered[i : i + batch_size]) for i in range(0, len(ordered), batch_size))


def padded(batch: Iterable[Sequence], device: torch.device) -> tuple[torch.Tensor, np.ndarray]:
    """Token ids [n, longest] and position_ids [n * longest], -1 where padded."""
    batch = list(batch)
    longest = max(len(s.token_ids) for s in batch)
    ids = np.full((len(batch), longest), PAD, np.int64)
    positions = np.full((len(batch), longest), -1, np.int64)
    for row, s in enumerate(batch):
        n = len(s.token_ids)
        ids[row, :n] = s.token_ids
        positions[row, :n] = np.arange(s.first_position_id, s.first_position_id + n)
    return sent(ids, device), positions.ravel()


def into(keys: CpuKeys | TorchKeys, positions: np.ndarray, n_sequences: int) -> Add:
    """What a forward pass over a padded batch calls with every layer's coefficients, [batch, seq, d_ffn]. positions: [batch * seq]."""
    add = keys.batch(positions, np.tile(np.arange(len(positions) // n_sequences), n_sequences))
    return lambda layer, m: add(layer, m.flatten(0, 1))


def n_tokens(s: Sequence) -> int:
    return len(s.token_ids)


def sweep_batch(model: Model, keys: CpuKeys | TorchKeys, batch: tuple[Sequence, ...], progress: Progress) -> None:
    """Add every layer's coefficients of a batch, once: where memory ran out half-way, the parts leave out the layers that the whole had come to."""
    n_added = {s.sequence_id: 0 for s in batch}

    def read(part: tuple[Sequence, ...]) -> int:
        ids, positions = padded(part, model.input_device)
        add, first = into(keys, positions, len(part)), n_added[part[0].sequence_id]

        def add_further(layer: int, m: torch.Tensor) -> None:
            if layer >= first:
                add(layer, m)
                n_added.update((s.sequence_id, layer + 1) for s in part)

        with capture(model, add_further):
            model.backbone(ids)
        return int((positions >= 0).sum())

    for n in in_parts(model, batch, n_tokens, read):
        progress(n)


def sweep_shard(
    model: Model, keys: CpuKeys | TorchKeys, documents: list[CutDocument], corpus_id: int, batch_size: int, progress: Progress
) -> dict[str, pa.Table]:
    """Sweep whole documents: their text tables, statistics, and the triggers among them that are still in the top-k.

    `keys` goes on from shard to shard, so a shard carries only triggers that beat the k-th best known.
    """
    keys.reset_statistics()
    sequences = [s for d in documents for s in d.sequences]
    for batch in batches(sequences, batch_size):
        sweep_batch(model, keys, batch, progress)
    first = min(s.first_position_id for s in sequences)
    last = max(s.first_position_id + len(s.token_ids) for s in sequences)
    return {**text_tables(documents, corpus_id), "trigger": trigger_rows(keys, corpus_id, first, last), "neuron_statistics": statistics_rows(keys, corpus_id)}


def trace_shard(
    model: Model, documents: list[CutDocument], sample: np.ndarray, value_tops: np.ndarray, corpus_id: int, run_id: int, settings: TraceSettings,
    batch_size: int, progress: Progress,
) -> dict[str, pa.Table]:  # fmt: skip
    """Trace the sampled positions of some documents, and bring the text tables of just the sequences they lie in."""
    kept = [CutDocument(d.document_id, d.document, tuple(s for s in d.sequences if sampled(s, sample).any())) for d in documents]
    read = [read_up_to(s, int(np.flatnonzero(sampled(s, sample))[-1]) + 1) for d in kept for s in d.sequences]
    parts = []
    for batch in batches(read, batch_size):
        for part in trace_batch(model, batch, sample):
            parts.append(part)
            progress(len(part.position_ids))
    return {**text_tables(kept, corpus_id), **trace_tables(model, joined(parts), value_tops, run_id, settings)}


def sampled(s: Sequence, sample: np.ndarray) -> np.ndarray:
    return np.isin(np.arange(s.first_position_id, s.first_position_id + len(s.token_ids)), sample)


def read_up_to(s: Sequence, n: int) -> Sequence:
    """The first n positions of a sequence: attention is causal, so what follows the last traced position need not be read."""
    return replace(s, **{f.name: getattr(s, f.name)[:n] for f in fields(s) if isinstance(getattr(s, f.name), np.ndarray)})


def trace_batch(model: Model, batch: tuple[Sequence, ...], sample: np.ndarray) -> Iterator[TracedStates]:
    """What was computed at the sampled positions of a batch, in one part or, where memory ran out, in several."""
    return in_parts(model, batch, n_tokens, lambda part: traced_states(model, part, sample))


def traced_states(model: Model, batch: tuple[Sequence, ...], sample: np.ndarray) -> TracedStates:
    """One forward pass, and what it computed at the sampled positions of the batch."""
    ids, positions = padded(batch, model.input_device)
    chosen = np.flatnonzero(np.isin(positions, sample))
    following = np.full(ids.shape, -1, np.int64)
    for row, s in enumerate(batch):
        following[row, : len(s.next_token_ids)] = s.next_token_ids
    index = torch.from_numpy(chosen).to(model.device)
    with record_sites(model, lambda x: x.flatten(0, 1)[index.to(x.device)].to(model.device).float()) as recorded:
        model.backbone(ids)
    layers = range(model.n_layers)
    return TracedStates(
        {site: torch.stack([recorded[layer, site] for layer in layers]) for site in SITES},
        torch.stack([recorded["coefficient", layer] for layer in layers]),
        torch.stack([recorded["ffn_scale", layer] for layer in layers]),
        positions[chosen],
        following.ravel()[chosen],
    )
