"""Sentences with their syntax trees, and the tokens at which the model reads their words: data for tree probes and for comparing attention with trees."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import duckdb
import numpy as np

from ingest.text.probed_words import split_documents

MOST_WORDS = 100
"""Most words of a sentence; longer sentences are left out."""
MOST_TOKENS = 512
"""Most tokens of a sentence; longer sentences are left out."""
PUNCTUATION = "PUNCT"

WORDS = """
SELECT w.document_id, w.sentence, w.word_id, w.head_word_id, w.relation, w.pos, f.position_id, l.position_id, f.sequence_id
FROM word AS w
LEFT JOIN position AS f ON w.first_position_id = f.position_id AND f.index > 0
LEFT JOIN position AS l ON w.last_position_id = l.position_id AND l.sequence_id = f.sequence_id
WHERE w.corpus_id = $corpus
    AND (w.document_id, w.sentence) IN (
        SELECT (x.document_id, x.sentence) FROM word AS x INNER JOIN position AS i ON x.last_position_id = i.position_id
        WHERE x.corpus_id = $corpus AND i.sequence_id IN (SELECT unnest($sequences))
    )
ORDER BY w.word_id
"""
PAIRS = """
SELECT w.relation, w.head_word_id > w.word_id, count(*)
FROM word AS w
WHERE w.corpus_id = $corpus AND w.relation IS NOT NULL AND w.head_word_id IS NOT NULL
GROUP BY ALL
"""


@dataclass(frozen=True, eq=False)
class Parsed:
    """A sentence of n words in their order. All fields but the first three are [n].

    sequence_id: the sequence in which its words are read; None if they are read in several sequences, or none is read. heads: index of each word's head, -1
    for a word without one. first, last: position_ids of each word's first and last token; -1 if the word begins at index 0, does not end where a token ends,
    or ends in another sequence than it begins in.
    """

    document_id: int
    is_test: bool
    sequence_id: int | None
    word_ids: np.ndarray
    heads: np.ndarray
    relations: tuple[str | None, ...]
    is_punctuation: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def __len__(self) -> int:
        return len(self.word_ids)

    @property
    def is_read(self) -> np.ndarray:
        """Mask of the words that have tokens of their own, after index 0."""
        return self.last >= 0

    @property
    def n_tokens(self) -> int:
        """Number of tokens from the first token of the first word that is read to the last token of the last such word."""
        return int(self.last.max() - self.first[self.is_read].min(initial=self.last.max())) + 1

    @property
    def is_tree(self) -> bool:
        """Whether all words are read in one sequence, one of them is the root, and all others depend on it."""
        if self.sequence_id is None or not self.is_read.all() or (self.heads < 0).sum() != 1:
            return False
        return bool(np.isfinite(depths(self.heads)).all())


def depths(heads: np.ndarray) -> np.ndarray:
    """Count the edges from each word up to the root, [n]; inf if the heads form a cycle."""
    found, at, n = np.zeros(len(heads)), np.arange(len(heads)), len(heads)
    for _ in range(n):
        found, at = found + (heads[at] >= 0), np.where(heads[at] >= 0, heads[at], at)
    return np.where(heads[at] < 0, found, np.inf)


def tree_distances(heads: np.ndarray) -> np.ndarray:
    """Count the edges between each two words of a tree, [n, n]."""
    n = len(heads)
    # which words lie on the way from each word to the root, itself included
    above = np.eye(n, dtype=bool)
    at = np.arange(n)
    for _ in range(n):
        at = np.where(heads[at] >= 0, heads[at], at)
        above[np.arange(n), at] = True
    shared, depth = (above[:, None] & above[None]).sum(-1), above.sum(-1)
    return (depth[:, None] + depth[None] - 2 * shared).astype(np.float64)


@dataclass(frozen=True, eq=False)
class ParsedText:
    """The sentences that have a word in the drawn `sequences` of a corpus.

    sentences: the sentences that lie within one of these sequences, and have at most MOST_WORDS and MOST_TOKENS. long: the longer sentences within one of
    these sequences. split: the other sentences.
    """

    sentences: list[Parsed]
    split: list[Parsed]
    long: list[Parsed]
    sequences: set[int]

    @property
    def n_left_out(self) -> int:
        return len(self.split) + len(self.long)


def parsed_text(con: duckdb.DuckDBPyConnection, corpus_id: int, asked: str, seed: int) -> ParsedText:
    """Read the sentences of a corpus that have a word in the sequences drawn from it. Raises AtlasError as `split_documents` does."""
    parts = split_documents(con, corpus_id, asked, seed)
    rows = con.execute(WORDS, {"corpus": corpus_id, "sequences": sorted(parts.sequences)}).fetchall()
    test = set(parts.test_documents.tolist())
    found = [sentence([row[2:] for row in words], document, document in test) for (document, _), words in groupby(rows, lambda row: row[:2])]
    split = [s for s in found if s.sequence_id not in parts.sequences]
    whole = [s for s in found if s.sequence_id in parts.sequences]
    is_short = [len(s) <= MOST_WORDS and s.n_tokens <= MOST_TOKENS for s in whole]
    kept, long = ([s for s, short in zip(whole, is_short, strict=True) if short == wanted] for wanted in (True, False))
    return ParsedText(kept, split, long, parts.sequences)


def all_pairs(con: duckdb.DuckDBPyConnection, corpus_id: int) -> Counter[tuple[str, bool]]:
    """Count the words of the corpus by their relation to their head, and by whether the head is the later of the two."""
    return Counter({(relation, is_later): n for relation, is_later, n in con.execute(PAIRS, {"corpus": corpus_id}).fetchall()})


def pairs_of(sentences: Iterable[Parsed]) -> Counter[tuple[str, bool]]:
    """Count the words of these sentences as `all_pairs` does: by their relation to their head, and by whether the head is the later of the two."""
    return Counter(
        (relation, bool(head > i)) for s in sentences for i, (relation, head) in enumerate(zip(s.relations, s.heads, strict=True)) if relation and head >= 0
    )


def sentence(rows: list[tuple], document_id: int, is_test: bool) -> Parsed:
    """Build a sentence from its words. rows: word_id, head, relation, part of speech, first and last token, sequence."""
    ids, heads, relations, pos, first, last, sequences = zip(*rows, strict=True)
    place = {word: i for i, word in enumerate(ids)}
    one = {s for s in sequences if s is not None}
    # a word without its last token is not read, wherever it begins
    tokens = (np.array([-1 if end is None else p for p, end in zip(each, last, strict=True)], np.int64) for each in (first, last))
    return Parsed(
        document_id, is_test, one.pop() if len(one) == 1 else None, np.array(ids), np.array([place.get(h, -1) for h in heads]), relations,
        np.array([p == PUNCTUATION for p in pos]), *tokens,
    )  # fmt: skip
