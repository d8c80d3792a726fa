"""Exact search for the nearest entries of many queries: every entry is compared, one block of the store at a time.

faiss finds candidates x of a query q by |x|² - 2·x·q + |q|², whose rounding error grows with the lengths of the keys. The distances of the candidates are
then computed anew as Σ (x - q)² in float32, and these decide, also if a compressed index proposes the candidates. All distances are squared.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import faiss
import numpy as np

from atlas.beside.retrieval.entries import Block, Store

MORE = 32
"""Candidates beyond the wanted number, since rounding may have put a true neighbour among them."""

QUERIES_AT_ONCE = 2048
"""Queries that share one reading of the store; each needs about 60 bytes of memory per candidate."""

PAIR_BYTES = 2**26
"""Bytes of the float32 keys that are compared with their queries at once."""

NOWHERE = -1
"""Stands in for a position if the store has fewer entries than are wanted; its distance is infinite."""


@dataclass(frozen=True)
class Queries:
    """Queries whose neighbours are wanted. keys: [n, d_model] float32. documents: [n], the number that `Texts` gives each query's text."""

    keys: np.ndarray
    documents: np.ndarray

    def part(self, rows: slice) -> "Queries":
        return Queries(self.keys[rows], self.documents[rows])


class Neighbours(NamedTuple):
    """The nearest entries of each query, nearest first, ties by position_id; each array is [n, k]. distances: squared L2, float32."""

    distances: np.ndarray
    position_ids: np.ndarray
    next_token_ids: np.ndarray


class Remembered(Protocol):
    """Storage of neighbours that were found before, by the rows of their queries."""

    def load(self, rows: slice) -> Neighbours | None: ...

    def save(self, rows: slice, found: Neighbours) -> None: ...


Texts = Callable[[np.ndarray], np.ndarray]
"""document_ids → numbers that are equal for equal texts."""

Propose = Callable[[Queries, int, Callable[[int], None]], np.ndarray]
"""Queries and k → numbers of candidates in the store, [n, k or more], NOWHERE if there are fewer; the callback receives the number of entries compared."""


def neighbours(store: Store, queries: Queries, k: int, propose: Propose, advance: Callable[[int], None], remembered: Remembered | None = None) -> Neighbours:
    """Find the k nearest entries of each query that are not of its own text; neighbours in `remembered` are not searched again.

    advance: called with the number of pairs of query and entry that were compared, now or before.
    """
    parts = []
    for start in range(0, len(queries.keys), QUERIES_AT_ONCE):
        rows = slice(start, start + QUERIES_AT_ONCE)
        some = queries.part(rows)
        n = len(some.keys)
        found = remembered.load(rows) if remembered else None
        if found is None:
            candidates = propose(some, k, lambda entries, n=n: advance(n * entries))  # type: ignore[misc]
            found = select_nearest(store, some, candidates, k)
            if remembered:
                remembered.save(rows, found)
        else:
            advance(n * store.n_entries)
        parts.append(found)
    return Neighbours(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def every_entry(store: Store, texts: Texts) -> Propose:
    """Build a search that compares each query with every entry."""

    def propose(queries: Queries, k: int, advance: Callable[[int], None]) -> np.ndarray:
        # the same for both, so that no distance changes, and what is rounded is smaller
        shift = queries.keys.mean(0)
        shifted = queries.keys - shift
        best = faiss.ResultHeap(len(shifted), k + MORE)
        for block in store.blocks():
            keys = block.keys - shift
            for rows, kept in comparable_rows(queries.documents, texts(block.document_ids)):
                if len(kept):
                    found = search_exactly(keys if len(kept) == len(keys) else keys[kept], shifted[rows], k + MORE)
                    best.add_result_subset(rows, found[0], np.where(found[1] < 0, NOWHERE, kept[found[1]] + block.first))
            advance(len(keys))
        best.finalize()
        return best.I

    return propose


def search_exactly(keys: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the distances and rows of the nearest keys, [n, k], nearest first; fewer columns if there are fewer keys."""
    index = faiss.IndexFlatL2(keys.shape[1])
    index.add(keys)
    return index.search(np.ascontiguousarray(queries), min(k, len(keys)))


def comparable_rows(of_queries: np.ndarray, of_entries: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (query rows, entry rows) that may be compared: all pairs whose query and entry are not of the same text.

    Queries whose text has no entry here come with all entries; those of each other text come with all entries but its own.
    """
    here = np.intersect1d(of_queries, of_entries)
    others = np.flatnonzero(~np.isin(of_queries, here))
    if len(others):
        yield others, np.arange(len(of_entries))
    for text in here:
        yield np.flatnonzero(of_queries == text), np.flatnonzero(of_entries != text)


def select_nearest(store: Store, queries: Queries, candidates: np.ndarray, k: int) -> Neighbours:
    """Select the k nearest of each query's candidates, by their exact distances. candidates: [n, any number]."""
    n = candidates.shape
    distances, position_ids, tokens = np.full(n, np.inf, np.float32), np.full(n, NOWHERE, np.int64), np.full(n, NOWHERE, np.int32)
    for block in store.blocks():
        rows, columns = np.nonzero((candidates >= block.first) & (candidates < block.first + len(block.position_ids)))
        entries = candidates[rows, columns] - block.first
        distances[rows, columns] = squared_distances(block, entries, queries.keys, rows)
        position_ids[rows, columns], tokens[rows, columns] = block.position_ids[entries], block.next_token_ids[entries]
    order = np.lexsort((position_ids, distances), axis=1)[:, :k]
    return Neighbours(*(np.take_along_axis(column, order, 1) for column in (distances, position_ids, tokens)))


def squared_distances(block: Block, entries: np.ndarray, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Compute the squared L2 distance between the block's entry entries[i] and the query queries[rows[i]] for each i, [n] float32."""
    step = max(1, PAIR_BYTES // (4 * queries.shape[1]))
    parts = [np.empty(0, np.float32)]
    for start in range(0, len(entries), step):
        difference = block.keys[entries[start : start + step]] - queries[rows[start : start + step]]
        parts.append(np.einsum("ij,ij->i", difference, difference))
    return np.concatenate(parts)
