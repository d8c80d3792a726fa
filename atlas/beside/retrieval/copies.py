"""Near-copies: queries whose text is in the store nearly word for word. They can account for most of the gain from retrieval."""

from collections.abc import Iterator

import duckdb
import numpy as np

NEAR = 0.01
"""A query is a near-copy if its distance to the nearest entry is below this share of the median of such distances."""

LENGTH = 32
"""A query is also a near-copy if this many tokens up to it equal those up to one of its neighbours."""

SPAN = 2**20
"""Positions read at once. A span has whole documents, so it may exceed this by the positions of one document."""

SPANS = """
WITH
extent AS (
    SELECT
        s.document_id,
        min(s.first_position_id) AS first,
        max(s.first_position_id + s.n_positions) AS behind
    FROM sequence AS s
    INNER JOIN document AS d ON s.document_id = d.document_id
    WHERE d.corpus_id = $corpus
    GROUP BY s.document_id
),

counted AS (
    SELECT
        e.first,
        e.behind,
        sum(e.behind - e.first) OVER (ORDER BY e.first) - 1 AS last
    FROM extent AS e
)

SELECT
    min(c.first) AS first,
    max(c.behind) AS behind
FROM counted AS c
GROUP BY c.last // $span
ORDER BY first
"""

TOKENS = """
SELECT p.position_id, s.document_id, p.token_id
FROM position AS p
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
WHERE
    p.position_id >= $first
    AND p.position_id < $behind
    AND s.first_position_id >= $first
    AND s.first_position_id < $behind
    AND NOT (p.index = 0 AND p.char_start = p.char_end)
ORDER BY p.position_id
"""
"""Tokens of a span, in order and without BOS: a text is the same however it is cut into sequences."""

ODD = np.uint64(0x9E3779B97F4A7C15)


def context_hashes(con: duckdb.DuckDBPyConnection, corpus_id: int, position_ids: np.ndarray) -> np.ndarray:
    """Hash the LENGTH tokens up to each position, uint64 in the shape of `position_ids`; 0 if the document has fewer, or the corpus has no such position.

    Memory holds one span of tokens and the given positions, however long the corpus is.
    """
    asked, places = np.unique(position_ids, return_inverse=True)
    hashes = np.zeros(len(asked), np.uint64)
    for first, behind in spans(con, corpus_id):
        here = slice(*np.searchsorted(asked, (first, behind)))
        if here.start < here.stop:
            found = con.execute(TOKENS, {"first": first, "behind": behind}).fetchnumpy()
            hashes[here] = hashes_at(asked[here], found["position_id"], rolling_hashes(found["token_id"].astype(np.uint64), found["document_id"]))
    return hashes[places].reshape(position_ids.shape)


def spans(con: duckdb.DuckDBPyConnection, corpus_id: int) -> Iterator[tuple[int, int]]:
    """Yield the first position_id of each span of a corpus and the position_id after its last, ascending."""
    yield from con.execute(SPANS, {"corpus": corpus_id, "span": SPAN}).fetchall()


def rolling_hashes(tokens: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Hash the LENGTH tokens that end at each token, [n] uint64; 0 if they are not all of one document."""
    n = len(tokens)
    hashes = np.zeros(n, np.uint64)
    if n < LENGTH:
        return hashes
    for back in range(LENGTH - 1, -1, -1):
        step = mix_bits(hashes[LENGTH - 1 :] ^ tokens[LENGTH - 1 - back : n - back])
        hashes[LENGTH - 1 :] = step
    is_whole = documents[LENGTH - 1 :] == documents[: n - LENGTH + 1]
    hashes[LENGTH - 1 :] = np.where(is_whole, hashes[LENGTH - 1 :] | np.uint64(1), 0)
    return hashes


def mix_bits(x: np.ndarray) -> np.ndarray:
    """Mix the bits of each number by splitmix64's finaliser: changing one bit changes about half of the result's bits."""
    with np.errstate(over="ignore"):
        x = (x + ODD) * np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(30)
        x *= np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def is_same_text(of_queries: np.ndarray, of_neighbours: np.ndarray) -> np.ndarray:
    """Tell whether the tokens up to each query equal those up to one of its neighbours, by their hashes: [n] and [n, k] → [n] bool."""
    own = of_queries[:, None]
    return ((of_neighbours == own) & (own != 0)).any(1)


def hashes_at(position_ids: np.ndarray, known: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Look up the hash at each position; 0 for a position that is not in `known`, which ascends."""
    if not len(known):
        return np.zeros(len(position_ids), np.uint64)
    at = np.searchsorted(known, position_ids).clip(max=len(known) - 1)
    return np.where(known[at] == position_ids, hashes[at], np.uint64(0))
