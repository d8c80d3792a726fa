"""The user's request for an ingest."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.text.corpora import Corpus, open_corpus
from ingest.text.suites import open_suites
from schema.errors import AtlasError


@dataclass(frozen=True)
class Request:
    """One call of `atlas ingest`; the command line documents each field and holds its default.

    trace: number of sampled positions, 0 for none. options: the passes' own options, by name (ingest/passes).
    lake, data: catalogue and storage of the lake that `target` is to describe, None if `target` is a file or describes a lake already.
    batch_size: sequences of a whole context that are read at once, 0 for as many as the device usually takes.
    workers: number of workers; ray: address of their Ray cluster, None for this machine.
    """

    target: Path
    lake: str | None
    data: str | None
    model: str
    revision: str | None
    dtype: str
    device: str
    corpus: str | None
    split: str | None
    config: str | None
    column: str | None
    format: str | None
    chat: bool
    corpus_revision: str | None
    every: int
    max_documents: int | None
    document_tokens: int | None
    context: int
    bos: str
    cut: str
    trace: int
    batch_size: int
    shard_positions: int | None
    seed: int
    workers: int
    ray: str | None
    options: Mapping[str, Any]

    @property
    def is_alone(self) -> bool:
        """Whether this process computes by itself, without workers."""
        return self.workers == 1 and self.ray is None

    @property
    def is_sweep_wanted(self) -> bool:
        """Whether every position of a corpus is read for triggers and statistics."""
        return self.corpus is not None and self.options["triggers"] > 0

    @property
    def batch_tokens(self) -> int:
        """Maximum number of tokens in a forward pass, padding included: batch_size whole contexts; 0 if batch_size is 1, to read each sequence alone."""
        return 0 if self.batch_size == 1 else self.batch_size * self.context

    @property
    def is_suite(self) -> bool:
        """Whether the corpus consists of the sentences of tests."""
        return bool(self.options["suite"])

    def open_corpus(self, spool: Path) -> Corpus:
        """Open the requested corpus; standard input is stored in the folder `spool`. Raises AtlasError if no corpus was requested."""
        if self.corpus is None:
            raise AtlasError("no corpus was asked for; give --corpus")
        if self.is_suite:
            return open_suites(self.options["suite"], n_items=self.options["items"], seed=self.seed)
        return open_corpus(
            self.corpus, split=self.split, config=self.config, column=self.column, form=self.format, revision=self.corpus_revision,
            spool=spool, max_documents=self.max_documents, every=self.every,
        )  # fmt: skip

    def corpus_source(self, corpus: Corpus) -> dict[str, object]:
        """Describe where the text is and how it is cut; a corpus with another description is another corpus."""
        cutting = {"context": self.context, "bos": self.bos, "cut": self.cut, "document_tokens": self.document_tokens}
        # said of chats alone, so that a text read before there were any is known again
        return {**corpus.source, **cutting, **({"chat": True} if self.chat else {})}

    def weights_settings(self) -> dict[str, object]:
        return {"model": self.model, "revision": self.revision, "dtype": self.dtype}
