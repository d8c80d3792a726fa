"""What a pass plans, and what plans it: a run with its settings and shards, and what tells rows, seconds and memory beforehand.

The command line reads the passes for their options, so what they do lies in a `Work` of another module, which imports what computes (torch, numpy).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
    import numpy as np

    from ingest.model.models import Model
    from ingest.recorders.base import Make
    from ingest.request import Request
    from ingest.text.corpora import Corpus
    from ingest.text.sequences import CutDocument
    from ingest.text.sequences import Sequence as TokenSequence
    from ingest.text.survey import Survey
    from ingest.workers.pool import Job
    from ingest.workers.worker import Worker


@dataclass(frozen=True)
class Text:
    """A corpus that is entered in the atlas. documents: reads it from the start; seen: what it was found to hold."""

    corpus: "Corpus"
    corpus_id: int
    seen: "Survey"
    documents: Callable[[], "Iterator[CutDocument]"]


@dataclass(frozen=True)
class Basis:
    """What a pass plans on: the connection to what is loaded so far, the model, the request, and the request's text, if it has one."""

    con: "duckdb.DuckDBPyConnection"
    model: "Model"
    request: "Request"
    text: Text | None


@dataclass(frozen=True)
class Plan:
    """One run of a pass.

    settings: what repeats it, beside the runs that it reads from, which are added (`Pass.reads`); a run with the same is gone on with.
    amounts: what each shard takes, in `unit`; their number is that of the shards.
    corpus_id: the corpus it reads, None where it is of the model or of all corpora. jobs: called with the run_id and the shards that the atlas lacks.
    """

    settings: Mapping[str, object]
    amounts: Sequence[int]
    unit: str
    jobs: "Callable[[int, list[int]], Iterable[Job]]"
    corpus_id: int | None = None


@dataclass(frozen=True)
class Recording:
    """One run of a pass that records while the text is read.

    recorder: called with the run_id, says how a worker makes a shard's recorder. known: called with the run_id, gives the sampled positions that other
    runs have recorded; None where every position is recorded. Shards are the spans of the text, or parts of its sample.
    resume: called with the run_id and the worker of this process, where it has one, before it goes on with the run.
    """

    settings: Mapping[str, object]
    recorder: "Callable[[int], Make]"
    known: "Callable[[int], np.ndarray] | None" = None
    resume: "Callable[[int, Worker], None] | None" = None


@dataclass(frozen=True)
class CostSample:
    """What the cost of a pass is told from. seen, sequences: of the request's corpus, None and empty without one; sequences: those of up to three batches."""

    model: "Model"
    request: "Request"
    seen: "Survey | None"
    sequences: "list[TokenSequence]"

    @property
    def batch(self) -> "tuple[TokenSequence, ...]":
        """Those that are read first, together; none without any."""
        from ingest.recorders.reading import batches

        return next(batches(self.sequences, self.request.batch_tokens), ())


class Work:
    """What a pass does: what it plans for a request, and what that will cost."""

    def check_model(self, request: "Request", model: "Model") -> None:
        """Raise AtlasError for what a request asks of a model that has it not; called before anything is written."""

    def note(self, basis: Basis) -> str | None:
        """Describe what it cannot bring, and what would help; None if nothing is missing."""
        return None

    def plans(self, basis: Basis) -> Iterable[Plan]:
        """Plan its runs, where it has jobs of its own. Each is asked for when the one before it has finished."""
        raise NotImplementedError

    def recording(self, basis: Basis, text: Text) -> Recording:
        """Plan its run, where it records while the text is read."""
        raise NotImplementedError

    def rows(self, probe: CostSample) -> dict[str, int]:
        """Count the rows that each of its tables will have, at most."""
        raise NotImplementedError

    def seconds(self, probe: CostSample) -> float:
        """Estimate how long it will take, from timed pieces of it."""
        raise NotImplementedError

    def n_bytes(self, probe: CostSample) -> int | None:
        """Estimate the memory that it takes beside a forward pass, at most; None where nobody needs to know."""
        return None
