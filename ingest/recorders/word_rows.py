"""Rows of the table `word`: words with their labels, and the tokens at which the model has read them."""

from collections.abc import Callable

import pyarrow as pa

from ingest.text.labelled import Word, covered, places, read_end, word_ids
from ingest.text.sequences import CutDocument

LABELS = ("pos", "tag", "relation", "entity")
SCHEMA = pa.schema(
    [
        ("corpus_id", pa.int32()),
        ("word_id", pa.int64()),
        ("document_id", pa.int64()),
        ("sentence", pa.int32()),
        ("first_position_id", pa.int64()),
        ("last_position_id", pa.int64()),
        ("char_start", pa.int32()),
        ("char_end", pa.int32()),
        *((name, pa.string()) for name in LABELS),
        ("head_word_id", pa.int64()),
        ("source", pa.string()),
    ]
)


def word_rows(documents: list[tuple[CutDocument, int]], words: Callable[[CutDocument], list[Word]], corpus_id: int, source: str) -> pa.Table:
    """documents: each with its first word_id. What the model does not read has no rows."""
    rows: list[dict[str, object]] = []
    for document, first_id in documents:
        all_words, end = words(document), read_end(document)
        # ids are of all words, those left out too, which may be heads
        ids = word_ids(all_words, first_id)
        kept = [i for i, word in enumerate(all_words) if word.end <= end]
        is_kept = set(kept)
        begins, ends = places([all_words[i] for i in kept], covered(document))
        for i, first, last in zip(kept, begins, ends, strict=True):
            word = all_words[i]
            head = ids[word.head] if word.head is not None and word.head in is_kept else None
            span = {"first_position_id": first, "last_position_id": last, "char_start": word.start, "char_end": word.end}
            labels = {name: getattr(word, name) for name in LABELS}
            named = {"corpus_id": corpus_id, "word_id": ids[i], "document_id": document.document_id, "sentence": word.sentence}
            rows.append({**named, **span, **labels, "head_word_id": head, "source": source})
    return pa.Table.from_pylist(rows, SCHEMA)
