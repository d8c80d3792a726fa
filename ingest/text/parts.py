"""Documents of each shard that is read: the documents of a span of the corpus, or those that contain a part of the sample."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from ingest.text.sequences import CutDocument
from ingest.text.survey import Span
from schema.errors import AtlasError

SAMPLED_PER_SHARD = 64
"""Most sampled positions in a shard; the states of all of them are in memory at once."""


def sample_parts(sample: tuple[int, ...], spans: tuple[Span, ...]) -> list[np.ndarray]:
    """Split an ascending sample of positions into parts of consecutive ones, at most SAMPLED_PER_SHARD each; no part crosses two spans."""
    starts = np.searchsorted(sample, [span.first_position_id for span in spans])
    return [part[i : i + SAMPLED_PER_SHARD] for part in np.split(np.array(sample, np.int64), starts) for i in range(0, len(part), SAMPLED_PER_SHARD)]


def is_within_span(part: np.ndarray, span: Span) -> bool:
    """Tell whether a part of the sample lies in a span."""
    return bool(span.first_position_id <= part[0] and part[-1] < span.first_position_id + span.n_positions)


def documents_of_spans(spans: tuple[Span, ...], documents: Iterator[CutDocument]) -> Iterator[tuple[int, list[CutDocument]]]:
    """Yield the number of each span and its documents, in one pass over the corpus. Raises AtlasError if they differ from the count of the survey."""
    for span in spans:
        found = list(islice(documents, span.n_documents))
        n = sum(len(s.token_ids) for d in found for s in d.sequences)
        if (len(found), n) != (span.n_documents, span.n_positions):
            raise AtlasError(
                f"the corpus changed while it was read: from document {span.first_document_id} on there were {span.n_documents} documents of "
                f"{span.n_positions} positions, and there are {len(found)} of {n}; leave its files unchanged, and ingest into a new file"
            )
        yield span.shard_id, found


def documents_of_parts(parts: dict[int, np.ndarray], documents: Iterator[CutDocument]) -> Iterator[tuple[int, list[CutDocument]]]:
    """Yield the number of each part of an ascending sample and the documents that contain its positions, in one pass over the corpus."""
    near: list[CutDocument] = []
    waiting = list(parts)
    for document in documents:
        if not document.sequences:
            continue
        near.append(document)
        last = document.sequences[-1]
        end = last.first_position_id + len(last.token_ids)
        while waiting and parts[waiting[0]][-1] < end:
            part = waiting.pop(0)
            yield part, [d for d in near if holds(d, parts[part])]
        near = [d for d in near if waiting and holds(d, parts[waiting[0]])]


def holds(document: CutDocument, sample: np.ndarray) -> bool:
    """Tell whether any sampled position lies in the document."""
    first, last = document.sequences[0], document.sequences[-1]
    return bool(((sample >= first.first_position_id) & (sample < last.first_position_id + len(last.token_ids))).any())
