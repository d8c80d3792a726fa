"""Search for the text that a corpus repeats most, in memory that does not grow with the corpus.

Stretches of WINDOW tokens are counted by the sketch of Misra and Gries 1982: the commonest COUNTED are kept, and the largest dropped count is subtracted from
all. A count is never too large, and too small by at most the number of positions / COUNTED; if there are no more than COUNTED stretches, it is exact.
"""

from dataclasses import dataclass

import numpy as np

from ingest.text.contexts import context_numbers
from ingest.text.sequences import CutDocument, Sequence

WINDOW = 16
"""Length of a stretch in tokens."""

COUNTED, AT_ONCE = 2**16, 2**18


@dataclass(frozen=True)
class Repeat:
    """A stretch of text, and a lower bound on how often it occurs in the corpus."""

    text: str
    n: int


class Repeats:
    """A counter of stretches within sequences."""

    def __init__(self) -> None:
        self.stretches, self.counts = np.empty(0, np.int64), np.empty(0, np.int64)
        self.best: tuple[int, str] | None = None
        self.waiting: list[tuple[Sequence, str]] = []
        self.n_waiting = 0

    def add(self, cut: CutDocument) -> None:
        for sequence in cut.sequences:
            if len(sequence.token_ids) >= WINDOW:
                # of a long text of which little is read the rest is let go
                self.waiting.append((sequence, cut.document.text[sequence.char_starts[0] : sequence.char_ends[-1]]))
                self.n_waiting += len(sequence.token_ids)
        if self.n_waiting >= AT_ONCE:
            self.count()

    def count(self) -> None:
        """Count the stretches of the waiting sequences."""
        if not self.waiting:
            return
        found = [stretches(sequence.token_ids) for sequence, _ in self.waiting]
        here, n_here = np.unique(np.concatenate(found), return_counts=True)
        self.stretches, places = np.unique(np.concatenate([self.stretches, here]), return_inverse=True)
        self.counts = np.bincount(places, np.concatenate([self.counts, n_here])).astype(np.int64)
        if len(self.counts) > COUNTED:
            self.counts -= np.partition(self.counts, -COUNTED - 1)[-COUNTED - 1]
            self.stretches, self.counts = self.stretches[self.counts > 0], self.counts[self.counts > 0]
        if len(self.counts):
            # one that has become the commonest stands here; of several as common the first stays it
            commonest = int(self.stretches[self.counts.argmax()])
            if self.best is None or self.best[0] != commonest:
                texts = (text_at(each, *one, commonest) for each, one in zip(found, self.waiting, strict=True))
                self.best = commonest, next(text for text in texts if text is not None)
        self.waiting, self.n_waiting = [], 0

    def commonest_stretch(self) -> Repeat | None:
        """Find the commonest stretch; None if none occurs twice."""
        self.count()
        n = int(self.counts.max(initial=0))
        return Repeat(self.best[1], n) if self.best and n > 1 else None


def stretches(token_ids: np.ndarray) -> np.ndarray:
    """Compute a number that identifies each stretch of WINDOW consecutive tokens: [n - WINDOW + 1]."""
    return context_numbers(token_ids, WINDOW)[WINDOW - 1 :]


def text_at(found: np.ndarray, sequence: Sequence, text: str, stretch: int) -> str | None:
    """Cut a stretch from the text of a sequence; None if the sequence does not have it."""
    places = np.flatnonzero(found == stretch)
    if not len(places):
        return None
    first = sequence.char_starts[0]
    return text[sequence.char_starts[places[0]] - first : sequence.char_ends[places[0] + WINDOW - 1] - first]
