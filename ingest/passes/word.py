"""Words of the corpus with part of speech, relation, head and entity, by a tagger or from a CoNLL-U file, or cut at white space; one shard a span."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ingest.passes.base import Basis, Plan, PlannedPass, Probe
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request
    from ingest.text.conllu import Aligned
    from ingest.text.labelled import Word as LabelledWord
    from ingest.text.sequences import CutDocument
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

WHITE_SPACE = "white-space"


class Word(PlannedPass):
    """A corpus has the words of one source: labels of two would be taken for more of the same."""

    name = "word"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(
            ["--words"],
            metavar="SOURCE",
            help="Label the words of the corpus: spacy:PIPELINE, or a CoNLL-U file of its texts. white-space: find them, without labels.",
        ),
    )

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["words"])

    def check(self, request: "Request") -> None:
        from ingest.store.committer import work_folder
        from ingest.text.conllu import align_all
        from ingest.text.tagger import pipeline

        if request.corpus is None:
            raise AtlasError("--words needs --corpus: the text whose words are labelled")
        if (name := tagger(request)) is not None:
            pipeline(name)
        elif is_file(request) and request.corpus != "-":
            # standard input is aligned when it has been kept
            align_all(file(request), request.open_corpus(work_folder(request.target)).documents())

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.text.conllu import Aligned
        from ingest.text.labelled import IDS_PER_CHARACTER
        from ingest.text.parts import documents_of_spans
        from ingest.text.sequences import ID_BITS
        from ingest.workers.pool import job

        if basis.text is None:
            return
        text, request = basis.text, basis.request
        source, settings = source_of(request)

        def jobs(run_id: int, pending: list[int]) -> "Iterable[Job]":
            aligned = Aligned(file(request)) if is_file(request) else None
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

    def rows(self, probe: Probe) -> dict[str, int]:
        """In few texts there are more words than tokens."""
        return {"word": probe.seen.n_positions} if probe.seen else {}

    def seconds(self, probe: Probe) -> float:
        """Of the tagger, from the start of the first text; a file takes next to nothing."""
        from ingest.text.tagger import pipeline, tagged
        from ingest.timing import fastest

        name = tagger(probe.request)
        if probe.seen is None or name is None:
            return 0.0
        nlp, text = pipeline(name), next(probe.request.open_corpus(probe.request.target.parent).documents()).text[:2000]
        n_chars, n_tokens = (sum(int(n) for n in each) for each in ([s.char_ends[-1] - s.char_starts[0] for s in probe.sequences], map(len, ids_of(probe))))
        return fastest(lambda: tagged(nlp, text, len(text))) / max(len(text), 1) * n_chars / n_tokens * probe.seen.n_positions


def ids_of(probe: Probe) -> list[Any]:
    return [s.token_ids for s in probe.sequences]


def finish(aligned: "Aligned | None") -> None:
    if aligned is not None:
        aligned.end()


def is_file(request: "Request") -> bool:
    return tagger(request) is None and request.options["words"] != WHITE_SPACE


def tagger(request: "Request") -> str | None:
    """The pipeline of spaCy that was asked for; None for a file, or for words without labels."""
    from ingest.text.tagger import PREFIX

    asked: str = request.options["words"]
    return asked.removeprefix(PREFIX) if asked.startswith(PREFIX) else None


def file(request: "Request") -> Path:
    return Path(request.options["words"])


def source_of(request: "Request") -> tuple[str, dict[str, object]]:
    """What `word.source` says, and what repeats it."""
    from ingest.text.tagger import pipeline, source
    from schema.key_files import file_sha256

    if (name := tagger(request)) is not None:
        said = source(pipeline(name), name)
        return said, {"words": said}
    if not is_file(request):
        said = "white space: without labels"
        return said, {"words": said}
    said = f"file: {file(request).name}"
    return said, {"words": said, "sha256": file_sha256(file(request))}


def compute(
    worker: "Worker", progress: "Progress", *, run_id: int, documents: "list[CutDocument]", firsts: list[int],
    words: "list[list[LabelledWord]] | None", name: str | None, corpus_id: int, source: str,
) -> "Tables":  # fmt: skip
    """words: of each document, where a file has given them."""
    from ingest.recorders.rows import text_tables
    from ingest.recorders.word_rows import word_rows
    from ingest.text.labelled import read_end
    from ingest.text.separated import separated
    from ingest.text.tagger import pipeline, tagged

    given = {d.document_id: each for d, each in zip(documents, words or [], strict=False)}

    def words_of(document: "CutDocument") -> "list[LabelledWord]":
        progress(sum(len(s.token_ids) for s in document.sequences))
        if words is not None:
            return given[document.document_id]
        if name is None:
            return separated(document.document.text, read_end(document))
        return tagged(worker.kept(run_id, lambda: pipeline(name)), document.document.text, read_end(document))

    rows = word_rows(list(zip(documents, firsts, strict=True)), words_of, corpus_id, source)
    return {**text_tables(documents, corpus_id), "word": rows}


PASS = Word()
