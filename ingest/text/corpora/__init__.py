"""Corpora, the sources of text. Every source gives a stream of documents that can be read more than once.

`open_corpus` tells from the specification which source is meant; each source is one file of this folder.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ingest.text.corpora import files, hub, sotu, stdin
from ingest.text.corpora.document import Corpus, Document
from schema.errors import AtlasError

__all__ = ["Corpus", "Document", "open_corpus"]


def open_corpus(
    spec: str,
    *,
    split: str | None = None,
    config: str | None = None,
    column: str | None = None,
    form: str | None = None,
    revision: str | None = None,
    spool: Path,
    max_documents: int | None = None,
    every: int = 1,
) -> Corpus:
    """Open a corpus and read its first document.

    spec: a file or glob, of text or of tables (formats.py); "-" for standard input, stored as a file in the folder `spool`;
    "sotu" for the installed package; a folder laid out as a dataset; anything else is the id of a Hugging Face dataset.
    split: part of a dataset; for files and standard input any label. config, revision: of a dataset.
    column: the column that holds the text, default "text"; the other columns become metadata.
    form: the format of files and standard input, one of FORMATS; None to infer it from each file's name, or from the beginning of standard input.
    every, max_documents: take the documents 0, every, 2·every, …, and at most max_documents of them.

    Raises AtlasError if the corpus does not exist, cannot be read or holds no document, or if an option does not apply to it.
    """
    if every < 1 or (max_documents is not None and max_documents < 1):
        raise AtlasError(f"corpus {spec!r}: every = {every} and max_documents = {max_documents} must be at least 1")
    corpus = _open(spec, split, config, column, form, revision, spool)
    taken = replace(
        corpus,
        source={**corpus.source, "every": every, "max_documents": max_documents},
        documents=_limit_documents(corpus.documents, every, max_documents),
    )
    if next(taken.documents(), None) is None:
        raise AtlasError(f"corpus {spec!r} is empty: it holds no document")
    return taken


def _open(spec: str, split: str | None, config: str | None, column: str | None, form: str | None, revision: str | None, spool: Path) -> Corpus:
    if not spec.strip():
        raise AtlasError(f"corpus {spec!r} names nothing; is a shell variable unset? To read the weights alone, leave --corpus out")
    if spec == "-":
        _refuse(spec, "standard input", config=config, revision=revision)
        return stdin.open_stdin(spool, split, column, form)
    if spec == "sotu":
        _refuse(spec, "an installed package", config=config, column=column, format=form, revision=revision)
        return sotu.open_sotu(split or "all")
    if files.means_files(spec):
        _refuse(spec, "a local file", config=config, revision=revision)
        return files.open_files(spec, split, column, form)
    _refuse(spec, "a dataset", format=form)
    return hub.open_dataset(spec, split, config, column, revision)


def _refuse(spec: str, kind: str, **options: str | None) -> None:
    """Raise AtlasError if an option is given that does not apply to this kind of corpus."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise AtlasError(f"corpus {spec!r} is {kind}, which has no {' or '.join(given)}; leave that out")


def _limit_documents(documents: Callable[[], Iterator[Document]], every: int, max_documents: int | None) -> Callable[[], Iterator[Document]]:
    stop = None if max_documents is None else min((max_documents - 1) * every + 1, sys.maxsize)
    return lambda: islice(documents(), 0, stop, min(every, sys.maxsize))
