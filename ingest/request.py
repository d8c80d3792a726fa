"""What the user asks an ingest for, and the parts of it that each run records to be repeatable."""

from dataclasses import dataclass
from pathlib import Path

from ingest.text.corpora import Corpus, open_corpus
from schema.errors import AtlasError

MAX_RANK = 2**15 - 1
"""What the column trigger.rank holds."""


@dataclass(frozen=True)
class Request:
    """One call of `atlas ingest`; the command line documents each field and holds its default.

    triggers: k of the sweep's top-k, 0 for no sweep. trace: number of sampled positions, 0 for no trace.
    paper: whether to record what the papers' figures need beyond these; paper_keys: keys of each layer whose triggers it reads again.
    map: whether to place values and traced states in the plane.
    lake, data: catalogue and storage of the lake that `target` is to describe, None where it is a file or describes one already.
    workers: how many compute; ray: address of the Ray cluster they are in, None for this machine.
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
    corpus_revision: str | None
    every: int
    max_documents: int | None
    document_tokens: int | None
    context: int
    bos: str
    cut: str
    triggers: int
    trace: int
    vector_sites: tuple[str, ...]
    coefficients: int
    paper: bool
    paper_keys: int
    map: bool
    batch_size: int
    shard_positions: int | None
    seed: int
    workers: int
    ray: str | None

    @property
    def is_alone(self) -> bool:
        """Whether this process computes itself."""
        return self.workers == 1 and self.ray is None

    def open_corpus(self, spool: Path) -> Corpus:
        """The corpus asked for; standard input is kept in the folder `spool`. Raises AtlasError if there is none."""
        if self.corpus is None:
            raise AtlasError("no corpus was asked for; give --corpus")
        return open_corpus(
            self.corpus, split=self.split, config=self.config, column=self.column, revision=self.corpus_revision, spool=spool,
            max_documents=self.max_documents, every=self.every,
        )  # fmt: skip

    def kept_triggers(self, n_positions: int) -> int:
        """k of the sweep over a corpus of so many positions: no key has more triggers. Raises AtlasError for more than the table has ranks."""
        k = min(self.triggers, n_positions)
        if k > MAX_RANK:
            raise AtlasError(f"--triggers {self.triggers}: this corpus has {n_positions:,} positions, and of each key at most {MAX_RANK:,} triggers are kept")
        return k

    def corpus_source(self, corpus: Corpus) -> dict[str, object]:
        """Where the text is and how it is cut: what makes a corpus another corpus."""
        cutting = {"context": self.context, "bos": self.bos, "cut": self.cut, "document_tokens": self.document_tokens}
        return {**corpus.source, **cutting}

    def weights_settings(self) -> dict[str, object]:
        return {"model": self.model, "revision": self.revision, "dtype": self.dtype}

    def sweep_settings(self) -> dict[str, object]:
        return {**self.weights_settings(), "triggers": self.triggers, "batch_size": self.batch_size, "shard_positions": self.shard_positions}

    def trace_settings(self) -> dict[str, object]:
        settings = {"trace": self.trace, "seed": self.seed, "vector_sites": list(self.vector_sites), "coefficients": self.coefficients}
        return {**self.weights_settings(), **settings, "batch_size": self.batch_size}
