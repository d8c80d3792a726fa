"""Survey of a corpus, made before the model reads it: one pass counts it, hashes it, divides it into shards and draws the traced sample.

All that a run needs to know about the corpus comes from this pass. So a run can be resumed, the time to its end can be estimated, and workers can compute
shards in any order. Memory grows only with the number of shards and of traced positions.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ingest.text.contexts import mix
from ingest.text.repeats import Repeat, Repeats
from ingest.text.sequences import ID_BITS, CutDocument

SHARD_POSITIONS, LARGEST_SHARD, MANY_SHARDS = 2**16, 2**20, 64
"""Sizes of a shard, in positions, if the user sets none: the initial and the largest; and the number of shards above which the size doubles.

Every shard adds a row of statistics for each neuron, so many shards are costly.
"""


@dataclass(frozen=True)
class Span:
    """The documents of one sweep shard: whole and consecutive."""

    shard_id: int
    first_document_id: int
    n_documents: int
    first_position_id: int
    n_positions: int


@dataclass(frozen=True)
class Survey:
    """Counts, shards and sample of a corpus.

    n_pieces: how many of the documents are pieces of longer texts. sample: position_ids drawn for the trace, ascending.
    left_out: columns of the source that JSON cannot hold, in order of appearance. longest: number of tokens of the longest sequence.
    repeat: the stretch of text that occurs most often in the corpus; None if none occurs twice.
    """

    sha256: str
    n_documents: int
    n_blank_documents: int
    n_pieces: int
    n_sequences: int
    n_positions: int
    spans: tuple[Span, ...]
    sample: tuple[int, ...]
    left_out: tuple[str, ...] = ()
    longest: int = 0
    repeat: Repeat | None = None


def survey(documents: Iterable[CutDocument], *, shard_positions: int | None, n_sample: int, seed: int, one_from: int | None = None) -> Survey:
    """Count, hash, divide and sample a corpus in one pass.

    A shard ends with the first document that brings it to `shard_positions`. If that is None, the size begins at SHARD_POSITIONS and doubles whenever more than
    MANY_SHARDS shards are full, up to LARGEST_SHARD.

    The sample is the `n_sample` positions with the smallest hash of (seed, document, place in the document): it does not depend on order, shards or workers,
    and a larger sample contains a smaller one. one_from: an index in the sequence; if given, at most one position of each sequence is sampled (Geva et al.
    2021, section 5: one prefix of a sentence), the one with the smallest hash, from that index on; the sample is smaller if there are fewer sequences.
    """
    digest = hashlib.sha256()
    n_documents = n_blank = n_pieces = n_sequences = n_positions = longest = 0
    spans: list[Span] = []
    span: Span | None = None
    size = shard_positions or SHARD_POSITIONS
    keys, ids, repeats = np.empty(0, np.uint64), np.empty(0, np.int64), Repeats()
    left_out: dict[str, None] = {}
    for cut in documents:
        repeats.add(cut)
        lengths = [len(s.token_ids) for s in cut.sequences]
        n, longest = sum(lengths), max([longest, *lengths])
        identity = document_digest(cut)
        digest.update(identity)
        left_out |= dict.fromkeys(cut.document.left_out)
        if n_sample and n:
            keys, ids = draw(keys, ids, cut, identity, n_sample, seed, one_from)
        span = extend_span(span, len(spans), cut, n, n_positions)
        n_documents, n_blank, n_pieces = n_documents + 1, n_blank + (not cut.sequences), n_pieces + cut.document.is_piece
        n_sequences, n_positions = n_sequences + len(cut.sequences), n_positions + n
        if span.n_positions >= size:
            spans.append(span)
            span = None
            if shard_positions is None and len(spans) > MANY_SHARDS and size < LARGEST_SHARD:
                size *= 2
                spans = merge_spans(spans, size)
                span = spans.pop() if spans[-1].n_positions < size else None
    if span and span.n_positions:
        spans.append(span)
    elif span and spans:
        # blank documents at the end give no position of their own: they go with the last shard that does
        spans[-1] = replace(spans[-1], n_documents=spans[-1].n_documents + span.n_documents)
    sample = tuple(sorted(ids.tolist()))
    counts = (n_documents, n_blank, n_pieces, n_sequences, n_positions)
    return Survey(digest.hexdigest(), *counts, tuple(spans), sample, tuple(left_out), longest, repeats.commonest_stretch())


def extend_span(span: Span | None, shard_id: int, cut: CutDocument, n: int, n_before: int) -> Span:
    """Add one more document to the open span; open a new span if none is open."""
    if span is None:
        first = corpus_base(cut.document_id) + n_before
        return Span(shard_id, cut.document_id, 1, first, n)
    return replace(span, n_documents=span.n_documents + 1, n_positions=span.n_positions + n)


def merge_spans(spans: list[Span], size: int) -> list[Span]:
    """Join neighbouring spans into larger ones that cover the same documents; each ends once it has `size` positions."""
    found: list[Span] = []
    for s in spans:
        if found and found[-1].n_positions < size:
            found[-1] = replace(found[-1], n_documents=found[-1].n_documents + s.n_documents, n_positions=found[-1].n_positions + s.n_positions)
        else:
            found.append(replace(s, shard_id=len(found)))
    return found


def corpus_base(any_id: int) -> int:
    """Find the first id of the corpus that a document, sequence or position id belongs to."""
    return any_id >> ID_BITS << ID_BITS


def document_digest(cut: CutDocument) -> bytes:
    d = cut.document
    return hashlib.sha256(json.dumps([d.name, d.metadata, d.text], sort_keys=True, default=str).encode()).digest()


def draw(
    keys: np.ndarray, ids: np.ndarray, cut: CutDocument, identity: bytes, n: int, seed: int, one_from: int | None
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Add a document's positions, or one position of each sequence, to the sample; keep the n smallest hashes. keys, ids: hashes and position_ids, sorted."""
    here = np.concatenate([np.arange(s.first_position_id, s.first_position_id + len(s.token_ids)) for s in cut.sequences])
    hashed = position_hashes(seed, identity, len(here))
    if one_from is not None:
        chosen = one_of_each([len(s.token_ids) for s in cut.sequences], hashed, one_from)
        here, hashed = here[chosen], hashed[chosen]
    if len(keys) == n:
        # the sample is full, and most documents bring nothing to it: sorting it anew for each takes longer than all else
        near = hashed <= keys[-1]
        if not near.any():
            return keys, ids
        here, hashed = here[near], hashed[near]
    keys, ids = np.concatenate([keys, hashed]), np.concatenate([ids, here])
    kept = np.lexsort((ids, keys))[:n]
    return keys[kept], ids[kept]


def one_of_each(lengths: list[int], hashed: np.ndarray, first: int) -> list[int]:
    """Find, for each sequence, the place of its smallest hash from index `first` of the sequence on. Places count from the document's first position."""
    starts = np.cumsum(lengths) - lengths
    return [int(start + first + hashed[start + first : start + n].argmin()) for start, n in zip(starts, lengths, strict=True) if n > first]


def hashes(seed: int, layer: int, ids: np.ndarray) -> np.ndarray:
    """Hash (seed, layer, id) for each id, [n] uint64. The samples of a layer's keys and positions are drawn by these hashes."""
    start = mix(np.array([seed], np.int64).astype(np.uint64) * np.uint64(1000003) + np.uint64(layer))
    return mix(start + ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def select_by_hash(seed: int, layer: int, ids: np.ndarray, n: int) -> np.ndarray:
    """Select the n ids with the smallest hashes, and sort them ascending. A larger sample contains a smaller one."""
    return np.sort(ids[np.argsort(hashes(seed, layer, ids), kind="stable")[:n]])


def position_hashes(seed: int, document: bytes, n: int) -> np.ndarray:
    """Hash each of a document's n positions, [n] uint64. document: digest of the document."""
    start = int.from_bytes(hashlib.blake2b(document, digest_size=8, key=seed.to_bytes(8, "little", signed=True)).digest(), "little")
    return mix(np.uint64(start) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
