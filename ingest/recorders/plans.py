"""Plans of passes: runs with their settings and shards, and the class `Work`, which makes them and estimates rows, seconds and memory beforehand.

The command line imports the passes for their options. What a pass does is therefore in a `Work` in another module, which imports torch and numpy.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
    import numpy as np

    from ingest.model.models import Model
    from ingest.recorders.base import ForwardRecorder, Make
    from ingest.request import Request
    from ingest.text.corpora import Corpus
    from ingest.text.sequences import CutDocument
    from ingest.text.sequences import Sequence as TokenSequence
    from ingest.text.survey import Survey
    from ingest.workers.pool import Job
    from ingest.workers.worker import Worker


@dataclass(frozen=True)
class Text:
    """A corpus that is registered in the atlas. seen: the survey of its content. documents: function that reads the corpus from the start."""

    corpus: "Corpus"
    corpus_id: int
    seen: "Survey"
    documents: Callable[[], "Iterator[CutDocument]"]


@dataclass(frozen=True)
class Basis:
    """Input of a plan: the connection to the rows loaded so far, the model, the request, and the request's text, if it has one."""

    con: "duckdb.DuckDBPyConnection"
    model: "Model"
    request: "Request"
    text: Text | None


@dataclass(frozen=True)
class Plan:
    """One run of a pass.

    settings: everything needed to repeat the run, except the runs that it reads from, which are added later (`Pass.reads`). An existing run with the same
    settings is continued.
    amounts: the size of each shard, in `unit`. jobs: called with the run_id and the shards that the atlas lacks.
    corpus_id: the corpus that the run reads, None if the run is about the model or about all corpora.
    """

    settings: Mapping[str, object]
    amounts: Sequence[int]
    unit: str
    jobs: "Callable[[int, list[int]], Iterable[Job]]"
    corpus_id: int | None = None


@dataclass(frozen=True)
class Recording:
    """One run of a pass that records while the text is read.

    recorder: maps the run_id to the function by which a worker makes a shard's recorder. Shards are the spans of the text, or parts of its sample.
    known: maps the run_id to the sampled positions that other runs have recorded; None if every position is recorded.
    resume: called before a run that lacks shards is continued, with the run_id and this process's worker; not called if the process has no worker.
    """

    settings: Mapping[str, object]
    recorder: "Callable[[int], Make]"
    known: "Callable[[int], np.ndarray] | None" = None
    resume: "Callable[[int, Worker], None] | None" = None


@dataclass(frozen=True)
class CostSample:
    """Sample from which the cost of a pass is estimated.

    seen: the survey of the request's corpus, None without a corpus. sequences: those of up to three batches of the corpus, empty without a corpus.
    """

    model: "Model"
    request: "Request"
    seen: "Survey | None"
    sequences: "list[TokenSequence]"

    @property
    def batch(self) -> "tuple[TokenSequence, ...]":
        """The sequences of the first batch, empty if there are none."""
        from ingest.recorders.reading import batches

        return next(batches(self.sequences, self.request.batch_tokens), ())

    def token_seconds(self, *recorders: "ForwardRecorder", positions: "np.ndarray | None" = None) -> float:
        """Measure the seconds that reading the first batch takes for each of its tokens. positions: those that are recorded, None for all."""
        from ingest.recorders.reading import n_tokens, read_batch
        from ingest.timing import fastest_seconds

        batch, heard = self.batch, [(each, positions) for each in recorders]
        return fastest_seconds(lambda: list(read_batch(self.model, heard, batch))) / sum(map(n_tokens, batch))

    def recording_seconds(self, recorder: "ForwardRecorder") -> float:
        """Estimate the seconds that recording every position takes. If a sweep reads the text anyway, its forward passes are not counted."""
        if self.seen is None:
            return 0.0
        return max(self.token_seconds(recorder) - (self.token_seconds() if self.request.is_sweep_wanted else 0.0), 0.0) * self.seen.n_positions


class Work:
    """The work of a pass: its plans for a request, and their cost."""

    def check_model(self, request: "Request", model: "Model") -> None:
        """Raise AtlasError if the request needs something that the model does not have. Called before anything is written."""

    def note(self, basis: Basis) -> str | None:
        """Describe which rows the pass cannot add, and what would help; None if nothing is missing."""
        return None

    def plans(self, basis: Basis) -> Iterable[Plan]:
        """Plan the runs of a pass that has its own jobs. Each plan is requested after the run of the plan before it has finished."""
        raise NotImplementedError

    def recording(self, basis: Basis, text: Text) -> Recording:
        """Plan the run of a pass that records while the text is read."""
        raise NotImplementedError

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Return an upper bound on the rows of each of the pass's tables."""
        raise NotImplementedError

    def seconds(self, sample: CostSample) -> float:
        """Estimate how many seconds the pass will take, from timed parts of its work."""
        raise NotImplementedError

    def n_bytes(self, sample: CostSample) -> int | None:
        """Estimate an upper bound on the memory, in bytes, that the pass takes beside a forward pass; None if it does not matter."""
        return None
