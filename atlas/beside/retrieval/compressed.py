"""Candidates from an index of compressed keys, for stores that are too large to compare a query with every entry: an inverted file with product codes.

Khandelwal et al. 2020, section 3: 4,096 lists of which 32 are searched, codes of 64 bytes. Distances are never taken
from codes: search.py computes them from the keys.
"""

from collections.abc import Callable

import faiss
import numpy as np
from rich.progress import Progress

from atlas.beside.retrieval.entries import Store
from atlas.beside.retrieval.search import MORE, Propose, Queries, Texts

MOST_EXACT = 5_000_000
"""Most entries of a store at which a query is compared with all of them; for a larger store, the index proposes candidates."""

LISTS = 4096
PROBES = 32
CODE_BYTES = 64

TRAINED_ON = 40
"""Maximum entries per list from which centroids are computed; faiss asks for at least 39."""

PROPOSED = 4
"""Candidates per wanted neighbour: codes distinguish near entries only coarsely."""


def build_proposer(store: Store, texts: Texts, bar: Progress) -> Propose:
    """Index a store, and return the function that proposes candidates from the index."""
    index = build_index(store, bar)
    owned = entries_of_texts(store, texts)

    def propose(queries: Queries, k: int, advance: Callable[[int], None]) -> np.ndarray:
        n = min(PROPOSED * k + MORE, store.n_entries)
        found = np.full((len(queries.keys), n), -1, np.int64)
        for text in np.unique(queries.documents):
            rows = np.flatnonzero(queries.documents == text)
            own = {"sel": faiss.IDSelectorNot(faiss.IDSelectorBatch(owned[text]))} if text in owned else {}
            parameters = faiss.SearchParametersIVF(nprobe=PROBES, **own)  # type: ignore[call-arg]
            found[rows] = index.search(np.ascontiguousarray(queries.keys[rows]), n, params=parameters)[1]
        advance(store.n_entries)
        return found

    return propose


def build_index(store: Store, bar: Progress) -> faiss.IndexIVFPQ:
    """Build the index of a store: learn centroids from a sample of its entries, then add every entry's code."""
    sample, d_model = sample_entries(store)
    lists = max(1, min(LISTS, len(sample) // TRAINED_ON))
    n_bits = 8 if len(sample) >= 256 else max(1, int(np.log2(len(sample))))
    index = faiss.IndexIVFPQ(faiss.IndexFlatL2(d_model), d_model, lists, code_bytes(d_model), n_bits)
    task = bar.add_task("index keys", total=store.n_entries, unit="entries")
    index.train(sample)
    for block in store.blocks():
        index.add_with_ids(block.keys, np.arange(block.first, block.first + len(block.keys)))
        bar.advance(task, len(block.keys))
    return index


def sample_entries(store: Store) -> tuple[np.ndarray, int]:
    """Sample entries at equal steps, at most TRAINED_ON per list; return their keys, [n, d_model] float32, and d_model."""
    step = -(-store.n_entries // (TRAINED_ON * LISTS))
    sample = np.concatenate([block.keys[-block.first % step :: step] for block in store.blocks()])
    return sample, sample.shape[1]


def code_bytes(d_model: int) -> int:
    """Return how many parts a key is cut into, each coded in one byte: the largest divisor of d_model that is at most CODE_BYTES."""
    return max(n for n in range(1, CODE_BYTES + 1) if d_model % n == 0)


def entries_of_texts(store: Store, texts: Texts) -> dict[int, np.ndarray]:
    """Map the number of each text to the numbers of its entries."""
    of = np.concatenate([texts(block.document_ids) for block in store.blocks()])
    order = np.argsort(of, kind="stable")
    numbers, starts = np.unique(of[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, starts[1:]), strict=True))
