"""Rows of the table `word`: words with their labels, and the positions of their tokens.

A text without labels is cut into words at white space, as in the question word_surprisal, and into sentences by the rule of ingest/text/sentences.py.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.rows import text_tables
from ingest.request import Request
from ingest.text.conllu import AlignedFile
from ingest.text.labelled import IDS_PER_CHARACTER, Word, covered_tokens, places, read_end, word_ids
from ingest.text.parts import documents_of_spans
from ingest.text.sentences import sentence_starts
from ingest.text.sequences import ID_BITS, CutDocument
from ingest.text.tagger import PREFIX, pipeline, source, tag_words
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.key_files import file_sha256

WORD = re.compile(r"\S+")

LOOK_AHEAD = 4
"""Number of characters after the possible end of a sentence that decide whether the sentence ends there."""

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
    """Build the rows of `word`. documents: each with its first word_id. Words that the model does not read have no rows."""
    rows: list[dict[str, object]] = []
    for document, first_id in documents:
        all_words, end = words(document), read_end(document)
        # ids are of all words, those left out too, which may be heads
        ids = word_ids(all_words, first_id)
        kept = [i for i, word in enumerate(all_words) if word.end <= end]
        is_kept = set(kept)
        begins, ends = places([all_words[i] for i in kept], covered_tokens(document))
        for i, first, last in zip(kept, begins, ends, strict=True):
            word = all_words[i]
            head = ids[word.head] if word.head is not None and word.head in is_kept else None
            span = {"first_position_id": first, "last_position_id": last, "char_start": word.start, "char_end": word.end}
            labels = {name: getattr(word, name) for name in LABELS}
            named = {"corpus_id": corpus_id, "word_id": ids[i], "document_id": document.document_id, "sentence": word.sentence}
            rows.append({**named, **span, **labels, "head_word_id": head, "source": source})
    return pa.Table.from_pylist(rows, SCHEMA)


WHITE_SPACE = "white-space"


class Words(Work):
    """Plans and costs of the pass `word`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        if basis.text is None:
            return
        text, request = basis.text, basis.request
        source, settings = source_of(request)

        def jobs(run_id: int, pending: list[int]) -> Iterable[Job]:
            aligned = AlignedFile(file(request)) if is_file(request) else None
            first = text.corpus_id << ID_BITS
            for i, documents in documents_of_spans(text.seen.spans, text.documents()):
                words = aligned and [aligned.words(d.document) for d in documents]
                firsts = []
                for d in documents:
                    firsts.append(first)
                    first += IDS_PER_CHARACTER * len(d.document.text)
                if i in pending:
                    of = {"run_id": run_id, "corpus_id": text.corpus_id, "source": source, "name": tagger(request)}
                    yield job(run_id, i, compute, documents=documents, firsts=firsts, words=words, **of)
            finish(aligned)

        settings = {**request.weights_settings(), **settings, "shard_positions": request.shard_positions}
        yield Plan(settings, [span.n_positions for span in text.seen.spans], "positions", jobs, text.corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Return the number of tokens as an upper bound on the rows: few texts have more words than tokens."""
        return {"word": sample.seen.n_positions} if sample.seen else {}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time of the tagger, measured on the start of the first text. Words from a file take almost no time."""
        name = tagger(sample.request)
        if sample.seen is None or name is None:
            return 0.0
        nlp, text = pipeline(name), next(sample.request.open_corpus(sample.request.target.parent).documents()).text[:2000]
        n_chars, n_tokens = (sum(int(n) for n in each) for each in ([s.char_ends[-1] - s.char_starts[0] for s in sample.sequences], map(len, ids_of(sample))))
        return fastest_seconds(lambda: tag_words(nlp, text, len(text))) / max(len(text), 1) * n_chars / n_tokens * sample.seen.n_positions


def ids_of(sample: CostSample) -> list[Any]:
    return [s.token_ids for s in sample.sequences]


def finish(aligned: AlignedFile | None) -> None:
    if aligned is not None:
        aligned.end()


def source_of(request: Request) -> tuple[str, dict[str, object]]:
    """Name the source of the words, as in `word.source`, and build the run settings that repeat it."""
    if (name := tagger(request)) is not None:
        said = source(pipeline(name), name)
        return said, {"words": said}
    if not is_file(request):
        said = "white space: without labels"
        return said, {"words": said}
    said = f"file: {file(request).name}"
    return said, {"words": said, "sha256": file_sha256(file(request))}


def compute(
    worker: Worker, progress: Progress, *, run_id: int, documents: list[CutDocument], firsts: list[int],
    words: list[list[Word]] | None, name: str | None, corpus_id: int, source: str,
) -> Tables:  # fmt: skip
    """Build the rows of texts and words. words: those of each document if they come from a file, else None."""
    given = {d.document_id: each for d, each in zip(documents, words or [], strict=False)}

    def words_of(document: CutDocument) -> list[Word]:
        progress(sum(len(s.token_ids) for s in document.sequences))
        if words is not None:
            return given[document.document_id]
        if name is None:
            return split_words(document.document.text, read_end(document))
        return tag_words(worker.shared_state(run_id, lambda: pipeline(name)), document.document.text, read_end(document))

    rows = word_rows(list(zip(documents, firsts, strict=True)), words_of, corpus_id, source)
    return {**text_tables(documents, corpus_id), "word": rows}


def is_file(request: Request) -> bool:
    return tagger(request) is None and request.options["words"] != WHITE_SPACE


def tagger(request: Request) -> str | None:
    """Name the requested pipeline of spaCy; None if the words come from a file or have no labels."""
    asked: str = request.options["words"]
    return asked.removeprefix(PREFIX) if asked.startswith(PREFIX) else None


def file(request: Request) -> Path:
    return Path(request.options["words"])


def split_words(text: str, read: int) -> list[Word]:
    """Find the words that begin in the first `read` characters. Punctuation stays part of the word that it is joined to."""
    starts = sentence_starts(text[: read + LOOK_AHEAD])
    words = takewhile(lambda m: m.start() < read, WORD.finditer(text))
    return [Word(m.start(), m.end(), bisect_right(starts, m.start()) - 1, None, None, None, None, None) for m in words]
