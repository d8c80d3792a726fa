"""Sequences of a text drawn by a seed: the same whatever order they come in."""

from collections.abc import Iterable

import numpy as np

from ingest.text.sequences import Sequence
from ingest.text.survey import hashes


def drawn_sequences(sequences: Iterable[Sequence], seed: int, n: int) -> list[Sequence]:
    """Draw at most n sequences of more than one token, those with the lowest hash of the seed; at most twice as many are in memory at once."""
    found: list[tuple[int, int, Sequence]] = []
    for s in (s for s in sequences if len(s.token_ids) > 1):
        found.append((int(hashes(seed, 0, np.array([s.sequence_id]))[0]), s.sequence_id, s))
        if len(found) >= 2 * n:
            found = sorted(found, key=lambda each: each[:2])[:n]
    return [s for *_, s in sorted(found, key=lambda each: each[:2])[:n]]
