"""Near-copies: queries whose text the store has nearly word for word. They can be most of what retrieval brings."""

from typing import TYPE_CHECKING

import duckdb
import numpy as np

if TYPE_CHECKING:
    from atlas.retrieval.search import Neighbours

NEAR = 0.01
"""Share of the median distance to the nearest entry, below which a query is a near-copy."""

LENGTH = 32
"""Equal tokens up to a query and up to one of its neighbours, which make it one too."""

TOKENS = """
SELECT p.position_id, s.document_id, p.token_id
FROM position AS p
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN document AS d ON s.document_id = d.document_id
WHERE d.corpus_id = $corpus AND NOT (p.index = 0 AND p.char_start = p.char_end)
ORDER BY p.position_id
"""
"""Of a corpus in its order, BOS left out: a text that is cut at other places is the same text."""

ODD = np.uint64(0x9E3779B97F4A7C15)


def context_hashes(con: duckdb.DuckDBPyConnection, corpus_id: int) -> tuple[np.ndarray, np.ndarray]:
    """position_ids of a corpus, ascending, and a 64-bit hash of the LENGTH tokens up to each; 0 where its document has fewer."""
    found = con.execute(TOKENS, {"corpus": corpus_id}).fetchnumpy()
    return found["position_id"], rolling(found["token_id"].astype(np.uint64), found["document_id"])


def rolling(tokens: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """The hash of LENGTH tokens that end at each, [n] uint64; 0 where they are not all of one document."""
    n = len(tokens)
    hashes = np.zeros(n, np.uint64)
    if n < LENGTH:
        return hashes
    for back in range(LENGTH - 1, -1, -1):
        step = mixed(hashes[LENGTH - 1 :] ^ tokens[LENGTH - 1 - back : n - back])
        hashes[LENGTH - 1 :] = step
    is_whole = documents[LENGTH - 1 :] == documents[: n - LENGTH + 1]
    hashes[LENGTH - 1 :] = np.where(is_whole, hashes[LENGTH - 1 :] | np.uint64(1), 0)
    return hashes


def mixed(x: np.ndarray) -> np.ndarray:
    """splitmix64's finaliser: one bit changes half of the others."""
    with np.errstate(over="ignore"):
        x = (x + ODD) * np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(30)
        x *= np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def is_same_text(found: "Neighbours", queries: np.ndarray, of_queries: tuple[np.ndarray, np.ndarray], of_store: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Whether the tokens up to each query are those up to one of its neighbours, [n]. queries: position_ids."""
    own = hashes_at(queries, *of_queries)
    theirs = hashes_at(found.position_ids.ravel(), *of_store).reshape(found.position_ids.shape)
    return ((theirs == own[:, None]) & (own[:, None] != 0)).any(1)


def hashes_at(position_ids: np.ndarray, known: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """The hash at each position; 0 for one that is not known."""
    if not len(known):
        return np.zeros(len(position_ids), np.uint64)
    at = np.searchsorted(known, position_ids).clip(max=len(known) - 1)
    return np.where(known[at] == position_ids, hashes[at], np.uint64(0))
