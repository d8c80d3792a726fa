"""Read texts once for all who record them: documents in, tables of each recorder out.

A shard's batches are a function of the shard alone (its sequences, longest first), so a shard computed twice on one
device, with as many threads, is the same to the bit; where a batch had to be split for want of memory, to rounding.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace

import numpy as np
import torch

from ingest.model.device import in_parts, sent
from ingest.model.hooks import listen
from ingest.model.models import Model
from ingest.recorders.base import Batch, Make, Recorder
from ingest.recorders.rows import text_tables
from ingest.text.sequences import NO_NEXT_TOKEN, CutDocument, Sequence
from ingest.workers.worker import Progress, Tables, Worker

PAD = 0
"""Token id in padded places; causal attention keeps it from every real position, and it never becomes a position."""


def read_spans(worker: Worker, progress: Progress, *, makes: list[Make], documents: list[CutDocument], corpus_id: int, batch_size: int) -> list[Tables]:
    """Read whole documents, and give the tables of each recorder, the texts among them."""
    recorders = [make(worker) for make in makes]
    for batch in batches((s for d in documents for s in d.sequences), batch_size):
        read_batch(worker.model, recorders, batch, None, progress)
    texts = text_tables(documents, corpus_id)
    return [texts | recorder.tables() for recorder in recorders]


def read_samples(
    worker: Worker, progress: Progress, *, makes: list[Make], samples: list[np.ndarray], documents: list[CutDocument], corpus_id: int, batch_size: int
) -> list[Tables]:
    """Read what the sampled positions of some documents need, and give the tables of each recorder, the texts of just the sequences they lie in among them.

    samples: the position_ids that each recorder is to record; one that has none gives no table.
    """
    recorders = [make(worker) for make in makes]
    sample = np.unique(np.concatenate(samples))
    read = [up_to_last(s, sample) for d in sampled_documents(documents, sample) for s in d.sequences]
    for batch in batches(read, batch_size):
        read_batch(worker.model, recorders, batch, sample, progress)
    return [
        text_tables(sampled_documents(documents, own), corpus_id) | recorder.tables() if len(own) else {}
        for recorder, own in zip(recorders, samples, strict=True)
    ]


def read_batch(model: Model, recorders: list[Recorder], sequences: tuple[Sequence, ...], sample: np.ndarray | None, progress: Progress) -> None:
    """One forward pass over some sequences, or several over parts of them where memory runs out. sample: positions to keep; None for all."""

    def read(part: tuple[Sequence, ...]) -> int:
        ids, batch = padded(part, model.input_device)
        rows = None if sample is None else np.flatnonzero(np.isin(batch.position_ids, sample))
        kept = batch if rows is None else batch.chosen(rows)
        for recorder in recorders:
            recorder.begin(kept)
        with listen(model, recorders, flat if rows is None else choose(model, rows)):
            model.backbone(ids)
        return int((kept.position_ids >= 0).sum())

    for n in in_parts(model, sequences, n_tokens, read):
        progress(n)


def flat(x: torch.Tensor) -> torch.Tensor:
    """[batch, seq, width] to [batch·seq, width]; a view."""
    return x.flatten(0, 1)


def choose(model: Model, rows: np.ndarray) -> Callable[[torch.Tensor], torch.Tensor]:
    """[batch, seq, width] to [rows, width] float32 on the model's device."""
    index = torch.from_numpy(rows).to(model.device)
    return lambda x: flat(x)[index.to(x.device)].to(model.device).float()


def batches(sequences: Iterable[Sequence], batch_size: int) -> Iterator[tuple[Sequence, ...]]:
    """Sequences by falling length, so that little is padded."""
    ordered = sorted(sequences, key=lambda s: -len(s.token_ids))
    return (tuple(ordered[i : i + batch_size]) for i in range(0, len(ordered), batch_size))


def padded(sequences: tuple[Sequence, ...], device: torch.device) -> tuple[torch.Tensor, Batch]:
    """Token ids [n, longest], and the batch that they are, every row of it."""
    longest = max(map(n_tokens, sequences))
    ids = np.full((len(sequences), longest), PAD, np.int64)
    positions, following = np.full(ids.shape, -1, np.int64), np.full(ids.shape, NO_NEXT_TOKEN, np.int64)
    for row, s in enumerate(sequences):
        n = n_tokens(s)
        ids[row, :n] = s.token_ids
        positions[row, :n] = np.arange(s.first_position_id, s.first_position_id + n)
        following[row, : len(s.next_token_ids)] = s.next_token_ids
    return sent(ids, device), Batch(sequences, positions.ravel(), np.tile(np.arange(longest), len(sequences)), following.ravel())


def n_tokens(s: Sequence) -> int:
    return len(s.token_ids)


def sampled(s: Sequence, sample: np.ndarray) -> np.ndarray:
    """Which of a sequence's positions are in the sample."""
    return np.isin(np.arange(s.first_position_id, s.first_position_id + len(s.token_ids)), sample)


def sampled_documents(documents: list[CutDocument], sample: np.ndarray) -> list[CutDocument]:
    """The documents with those of their sequences alone in which a sampled position lies."""
    kept = (replace(d, sequences=tuple(s for s in d.sequences if sampled(s, sample).any())) for d in documents)
    return [d for d in kept if d.sequences]


def up_to_last(s: Sequence, sample: np.ndarray) -> Sequence:
    """A sequence up to its last sampled position: attention is causal, so what follows need not be read."""
    n = int(np.flatnonzero(sampled(s, sample))[-1]) + 1
    return replace(s, **{f.name: getattr(s, f.name)[:n] for f in fields(s) if isinstance(getattr(s, f.name), np.ndarray)})
