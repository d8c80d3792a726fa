"""The nearest entries of many queries, exactly: every entry is compared, a block of the store at a time.

faiss finds candidates by |x|² - 2·x·q + |q|², whose rounding grows with the lengths of the keys. Of these the distances are then computed anew as
Σ (x - q)² in float32, and these decide; so they do where a compressed index proposes the candidates. Squared already: nothing is squared again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import faiss
import numpy as np

from atlas.beside.retrieval.entries import Block, Store

MORE = 32
"""Candidates beyond those that are wanted, among which rounding may have put one of them."""

QUERIES_AT_ONCE = 2048
"""Queries for which the store is read once: what is held for one is about 60 bytes a candidate."""

PAIR_BYTES = 2**26
"""Of the float32 keys that are compared with their queries at once."""

NOWHERE = -1
"""In place of a position where the store has fewer entries than are wanted; its distance is infinite."""


@dataclass(frozen=True)
class Queries:
    """What neighbours are looked for. keys: [n, d_model] float32; documents: [n], the text that each lies in, by the same numbers as of entries."""

    keys: np.ndarray
    documents: np.ndarray

    def part(self, rows: slice) -> "Queries":
        return Queries(self.keys[rows], self.documents[rows])


class Neighbours(NamedTuple):
    """The nearest entries, nearest first, ties by position_id; [n, k] each, squared L2 distances in float32."""

    distances: np.ndarray
    position_ids: np.ndarray
    next_token_ids: np.ndarray


class Remembered(Protocol):
    """Neighbours of some of the queries, by their rows, that were found before."""

    def load(self, rows: slice) -> Neighbours | None: ...

    def save(self, rows: slice, found: Neighbours) -> None: ...


Texts = Callable[[np.ndarray], np.ndarray]
"""document_ids → numbers that are equal where the texts are."""

Propose = Callable[[Queries, int, Callable[[int], None]], np.ndarray]
"""Queries and k → numbers of candidates in the store, [n, k or more], NOWHERE for none; told of entries that were looked at."""


def neighbours(store: Store, queries: Queries, k: int, propose: Propose, advance: Callable[[int], None], remembered: Remembered | None = None) -> Neighbours:
    """Find the k nearest entries of each query that are not of its own text; those that are remembered are not looked for again.

    advance: told of pairs of query and entry that were looked at, now or before.
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
    """Find the distances and rows of the nearest keys, [n, k], nearest first; fewer where there are fewer."""
    index = faiss.IndexFlatL2(keys.shape[1])
    index.add(keys)
    return index.search(np.ascontiguousarray(queries), min(k, len(keys)))


def comparable_rows(of_queries: np.ndarray, of_entries: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (queries, entries) that may be compared, as rows: queries whose text has no entry here with all, those of each other text with all but its own."""
    here = np.intersect1d(of_queries, of_entries)
    others = np.flatnonzero(~np.isin(of_queries, here))
    if len(others):
        yield others, np.arange(len(of_entries))
    for text in here:
        yield np.flatnonzero(of_queries == text), np.flatnonzero(of_entries != text)


def select_nearest(store: Store, queries: Queries, candidates: np.ndarray, k: int) -> Neighbours:
    """Select the k nearest of each query's candidates [n, any], by their exact distances."""
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
    """Compute the squared L2 distance of each entry of a block to the query in the same place, [n] float32."""
    step = max(1, PAIR_BYTES // (4 * queries.shape[1]))
    parts = [np.empty(0, np.float32)]
    for start in range(0, len(entries), step):
        difference = block.keys[entries[start : start + step]] - queries[rows[start : start + step]]
        parts.append(np.einsum("ij,ij->i", difference, difference))
    return np.concatenate(parts)
