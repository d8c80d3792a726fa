"""Words of a document with their labels, and the tokens that they begin and end with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ingest.text.sequences import CutDocument

IDS_PER_CHARACTER = 4
"""Number of word ids reserved for each character of a text: several words may be written as one (Portuguese à is a preposition and an article)."""


@dataclass(frozen=True)
class Word:
    """A word with its labels; labels that the source does not give are None.

    start, end: the word's characters in the document's text. sentence: the number of its sentence in the document, from 0.
    head: the index, in the same list of words, of the word that this word depends on; None for the root of a sentence.
    """

    start: int
    end: int
    sentence: int
    pos: str | None
    tag: str | None
    relation: str | None
    entity: str | None
    head: int | None


@dataclass(frozen=True, eq=False)
class CoveredTokens:
    """The tokens of a document that cover characters of its text (BOS covers none). All arrays are [n_tokens]."""

    position_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def covered_tokens(document: CutDocument) -> CoveredTokens:
    ids = [s.first_position_id + np.arange(len(s.token_ids), dtype=np.int64) for s in document.sequences]
    starts, ends = ([getattr(s, name) for s in document.sequences] for name in ("char_starts", "char_ends"))
    joined = [np.concatenate([np.zeros(0, np.int64), *column]) for column in (ids, starts, ends)]
    kept = joined[1] < joined[2]
    return CoveredTokens(*(column[kept] for column in joined))


def read_end(document: CutDocument) -> int:
    """Count how many characters of the document the model reads."""
    return int(covered_tokens(document).ends.max(initial=0))


def places(words: Sequence[Word], tokens: CoveredTokens) -> tuple[list[int | None], list[int | None]]:
    """Find the position_ids of each word's first token and of the token that ends where the word ends; None if there is no such token.

    The first token is the first one that covers a character of the word. If several tokens share a character, the last of them ends the word: only
    there has the model read the whole word.
    """
    ends_at = dict(zip(tokens.ends.tolist(), tokens.position_ids.tolist(), strict=True))
    first = np.searchsorted(tokens.ends, [w.start for w in words], side="right").tolist()
    begins: list[int | None] = [
        int(tokens.position_ids[i]) if i < len(tokens.ends) and tokens.starts[i] < w.end else None for i, w in zip(first, words, strict=True)
    ]
    return begins, [ends_at.get(w.end) for w in words]


def word_ids(words: Sequence[Word], first: int) -> list[int]:
    """Assign ascending ids to the words; a word has the same id whatever part of the corpus is read.

    An id is `first`, plus IDS_PER_CHARACTER times the word's start, plus the number of earlier words with the same start.
    """
    found: list[int] = []
    for i, word in enumerate(words):
        is_beside = i > 0 and words[i - 1].start == word.start
        found.append(found[-1] + 1 if is_beside else first + IDS_PER_CHARACTER * word.start)
    return found
