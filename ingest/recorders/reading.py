"""One reading of texts for all recorders: documents in, tables of each recorder out.

A shard's batches are a function of the shard alone (its sequences, longest first). A shard computed twice on one device,
with as many threads, is therefore the same to the bit or, if a batch had to be split for lack of memory, to rounding.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from ingest.model.device import in_parts, send_to_device
from ingest.model.hooks import CONTEXT, PATTERN, PROJECTED, Listener, keep_all, listen
from ingest.model.models import Model
from ingest.recorders.base import Batch, ForwardRecorder, ReadRequest, Recorder
from ingest.recorders.overflow import locate_overflow
from ingest.recorders.rows import text_tables
from ingest.text.sequences import NO_NEXT_TOKEN, CutDocument, Sequence
from ingest.workers.finite import require_finite
from ingest.workers.worker import Advance, Progress, Tables, Worker, report_shares

S = TypeVar("S")

PAD = 0
"""Token id of padding. Causal attention hides it from every real position, and padding is never stored as a position."""

READING = 0.5
"""Share of a sampled position's progress that its forward pass counts for. The rest counts for computing with its states, after all texts are read."""

PATTERN_BYTES = 2**27
"""Most bytes of a layer's attention weights, [batch, n_heads, seq, seq] float32, in one copy.

The forward pass itself has about two more copies in memory.
"""


def record_documents(
    worker: Worker, advance: Advance, *, asked: list[ReadRequest], documents: list[CutDocument], corpus_id: int, batch_tokens: int
) -> list[Tables]:
    """Read documents once, and return the tables of each run, those of the texts that it recorded included.

    If every run samples positions, each sequence is read only up to its last sampled position. A run with an empty sample gets no tables.
    """
    recorders = [each.make(worker) for each in asked]
    samples = [each.sample for each in asked if each.sample is not None]
    if len(samples) == len(asked):
        sample = np.unique(np.concatenate(samples))
        sequences = [cut_after_sample(s, sample) for d in sampled_documents(documents, sample) for s in d.sequences]
    else:
        sequences = [s for d in documents for s in d.sequences]
    with locate_overflow(worker.model, documents):
        heard = [(recorder, each.sample) for recorder, each in zip(recorders, asked, strict=True)]
        identity = identity_of(worker, asked, sequences, batch_tokens) if worker.begun else ""
        n_heard = worker.begun.restore(identity, recorders) if worker.begun else 0
        for i, batch in enumerate(batches(sequences, batch_tokens)):
            for part in [batch] if i < n_heard else read_batch(worker.model, heard, batch):
                for each in asked:
                    advance(each.run_id, sum(map(n_tokens, part)) if each.sample is None else READING * n_sampled(part, each.sample))
            if worker.begun and i >= n_heard:
                worker.begun.save_if_due(identity, i + 1, recorders)
        found = [build_tables(recorder, each, documents, corpus_id, partial(advance, each.run_id)) for recorder, each in zip(recorders, asked, strict=True)]
        for tables in found:
            for name, table in tables.items():
                require_finite(name, table)
    return found


def identity_of(worker: Worker, asked: list[ReadRequest], sequences: list[Sequence], batch_tokens: int) -> str:
    """Compute the SHA-256, in hexadecimal, of everything that determines the bits of a shard's numbers, the code of `ingest` included."""
    model = worker.model
    digest = hashlib.sha256(f"{code_sha256()} {model.weights_sha256} {model.dtype} {torch.__version__} {torch.get_num_threads()} {batch_tokens}".encode())
    for each in asked:
        # a number of a run that was given up is another's later
        digest.update(f"\n{each.run_id} {each.settings} ".encode() + (b"" if each.sample is None else each.sample.tobytes()))
    for s in sequences:
        digest.update(f"\n{s.sequence_id} {s.first_position_id} ".encode() + np.asarray(s.token_ids).tobytes())
    return digest.hexdigest()


@cache
def code_sha256() -> str:
    """Compute the SHA-256, in hexadecimal, of the code of `ingest`.

    The result is cached, since a process runs the code that it loaded even if the files change.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def n_sampled(sequences: tuple[Sequence, ...], sample: np.ndarray) -> int:
    """Count the positions of a sample that are in these sequences. sample: ascending position_ids."""
    starts = np.array([s.first_position_id for s in sequences])
    return int((np.searchsorted(sample, starts + [n_tokens(s) for s in sequences]) - np.searchsorted(sample, starts)).sum())


def build_tables(recorder: Recorder, asked: ReadRequest, documents: list[CutDocument], corpus_id: int, progress: Progress) -> Tables:
    """Build the tables of one run, after all texts have been read.

    progress: called only for a run that samples, with the progress in positions.
    """
    if asked.sample is None:
        return text_tables(documents, corpus_id) | recorder.tables(lambda _: None)
    if not len(asked.sample):
        return {}
    return text_tables(sampled_documents(documents, asked.sample), corpus_id) | report_shares(recorder.tables, progress, (1 - READING) * len(asked.sample))


def read_batch(
    model: Model, recorders: Collection[tuple[ForwardRecorder, np.ndarray | None]], sequences: tuple[Sequence, ...]
) -> Iterator[tuple[Sequence, ...]]:
    """Run one forward pass over some sequences, or several over parts of them if memory runs out; yield the sequences of each pass.

    recorders: each with the position_ids that it samples, None for every position. A recorder is not called for a part in which it samples no position.
    """

    def read_part(part: tuple[Sequence, ...]) -> tuple[Sequence, ...]:
        ids, batch = pad_sequences(part, model.input_device)
        with listen(model, [heard for recorder, sample in recorders if (heard := listener(model, recorder, sample, batch))]):
            model.backbone(ids)
        return part

    for some in split_to_fit(model, sequences) if any(PATTERN in recorder.sites for recorder, _ in recorders) else [sequences]:
        yield from in_parts(model, some, n_tokens, read_part)


def split_to_fit(model: Model, sequences: tuple[Sequence, ...]) -> list[tuple[Sequence, ...]]:
    """Split the sequences into groups whose attention weights fit in PATTERN_BYTES, with at least one sequence each."""
    longest = max(map(n_tokens, sequences))
    n = max(1, PATTERN_BYTES // (4 * model.n_heads * longest**2))
    return [sequences[i : i + n] for i in range(0, len(sequences), n)]


def listener(model: Model, recorder: ForwardRecorder, sample: np.ndarray | None, batch: Batch) -> Listener | None:
    """Begin a batch with the recorder, and build the listener that passes states to it; None if the recorder samples no position of the batch."""
    rows = None if sample is None else np.flatnonzero(np.isin(batch.position_ids, sample))
    if rows is not None and not len(rows):
        return None
    if rows is None:
        recorder.begin(batch)
        return Listener(recorder.sites, recorder.take, flat, dict.fromkeys((CONTEXT, *PROJECTED, PATTERN), keep_all))
    chosen = batch.select_rows(rows)
    recorder.begin(chosen)
    kept = {s.sequence_id for s in chosen.sequences}
    sequences = np.array([i for i, s in enumerate(batch.sequences) if s.sequence_id in kept])
    of_sequences = dict.fromkeys((CONTEXT, *PROJECTED), row_selector(model, sequences, keep_all))
    return Listener(recorder.sites, recorder.take, row_selector(model, rows, flat), {**of_sequences, PATTERN: destinations(model, rows)})


def flat(x: torch.Tensor) -> torch.Tensor:
    """View a state [batch, seq, width] as [batch·seq, width]."""
    return x.flatten(0, 1)


def row_selector(model: Model, rows: np.ndarray, of: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make a function that views a state by `of` and selects these rows of the view, as float32 on the model's device."""
    index = torch.from_numpy(rows).to(model.device)
    return lambda x: of(x)[index.to(x.device)].to(model.device).float()


def destinations(model: Model, rows: np.ndarray) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make a function that selects the attention weights of some rows, as float32 on the model's device.

    It maps [batch, n_heads, seq, seq] to [rows, n_heads, seq].
    """
    index = torch.from_numpy(rows)

    def keep(x: torch.Tensor) -> torch.Tensor:
        sequence, place = index.to(x.device) // x.shape[-1], index.to(x.device) % x.shape[-1]
        return x[sequence, :, place].to(model.device).float()

    return keep


def batches(sequences: Iterable[S], batch_tokens: int, length: Callable[[Any], int] = lambda s: len(s.token_ids)) -> Iterator[tuple[S, ...]]:
    """Yield batches of sequences in order of decreasing length, so that there is little padding.

    A batch has at most batch_tokens tokens, padding included, but at least one sequence.
    """
    left = sorted(sequences, key=lambda s: -length(s))
    start = 0
    while start < len(left):
        end = start + max(1, batch_tokens // max(1, length(left[start])))
        yield tuple(left[start:end])
        start = end


def pad_sequences(sequences: tuple[Sequence, ...], device: torch.device) -> tuple[torch.Tensor, Batch]:
    """Pad sequences to token ids [n, longest], and build their batch, with every row."""
    longest = max(map(n_tokens, sequences))
    ids = np.full((len(sequences), longest), PAD, np.int64)
    positions, following = np.full(ids.shape, -1, np.int64), np.full(ids.shape, NO_NEXT_TOKEN, np.int64)
    for row, s in enumerate(sequences):
        n = n_tokens(s)
        ids[row, :n] = s.token_ids
        positions[row, :n] = np.arange(s.first_position_id, s.first_position_id + n)
        following[row, : len(s.next_token_ids)] = s.next_token_ids
    return send_to_device(ids, device), Batch(sequences, positions.ravel(), np.tile(np.arange(longest), len(sequences)), following.ravel())


def n_tokens(s: Sequence) -> int:
    return len(s.token_ids)


def is_sampled(s: Sequence, sample: np.ndarray) -> np.ndarray:
    """Tell which of a sequence's positions are in the sample."""
    return np.isin(np.arange(s.first_position_id, s.first_position_id + len(s.token_ids)), sample)


def sampled_documents(documents: list[CutDocument], sample: np.ndarray) -> list[CutDocument]:
    """Select the documents with a sampled position, and of each document only the sequences with one."""
    kept = (replace(d, sequences=tuple(s for s in d.sequences if is_sampled(s, sample).any())) for d in documents)
    return [d for d in kept if d.sequences]


def cut_after_sample(s: Sequence, sample: np.ndarray) -> Sequence:
    """Cut a sequence after its last sampled position: attention is causal, so the rest need not be read."""
    n = int(np.flatnonzero(is_sampled(s, sample))[-1]) + 1
    return replace(s, **{f.name: getattr(s, f.name)[:n] for f in fields(s) if isinstance(getattr(s, f.name), np.ndarray)})
