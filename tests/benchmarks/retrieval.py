"""Neighbours among keys: a query's search, exact and compressed, beside faiss's own index in memory; and what an entry takes on disk."""

from pathlib import Path
from time import perf_counter

import faiss
import numpy as np
from rich.progress import Progress

from atlas.beside.retrieval import compressed
from atlas.beside.retrieval.search import Queries, every_entry, neighbours
from tests.atlas.retrieval.stores import store_of

N_ENTRIES, N_QUERIES, D_MODEL, K = 100_000, 500, 576, 1024


def bench_retrieval(folder: Path) -> None:
    """N_QUERIES queries of K neighbours among N_ENTRIES random keys of D_MODEL numbers."""
    generator = np.random.default_rng(0)
    keys = generator.normal(0, 3, (N_ENTRIES, D_MODEL)).astype(np.float16)
    store = store_of(folder, keys, np.arange(N_ENTRIES), np.arange(N_ENTRIES) // 1000, group=7000)
    queries = Queries(generator.normal(0, 3, (N_QUERIES, D_MODEL)).astype(np.float32), np.full(N_QUERIES, -1))

    def texts(of: np.ndarray) -> np.ndarray:
        return of

    index = faiss.IndexFlatL2(D_MODEL)
    index.add(keys.astype(np.float32))
    start = perf_counter()
    index.search(queries.keys, K)
    bare = (perf_counter() - start) / N_QUERIES
    start = perf_counter()
    exact = neighbours(store, queries, K, every_entry(store, texts), lambda _: None)
    whole = (perf_counter() - start) / N_QUERIES
    propose = compressed.build_proposer(store, texts, Progress(disable=True))
    start = perf_counter()
    coarse = neighbours(store, queries, K, propose, lambda _: None)
    proposed = (perf_counter() - start) / N_QUERIES
    shared = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(exact.position_ids, coarse.position_ids, strict=True)])
    print(f"\n(r) retrieval: {N_QUERIES} queries of {K} neighbours among {N_ENTRIES:,} random keys of {D_MODEL}")
    print(f"    faiss, keys in memory        {bare * 1e3:10.2f} ms a query")
    print(f"    from files, distances anew   {whole * 1e3:10.2f} ms a query, {whole / bare:.2f} times as long")
    print(f"    compressed, distances anew   {proposed * 1e3:10.2f} ms a query, {shared:.3f} of the neighbours are the nearest")
    print(f"    an entry                     {store.n_bytes / N_ENTRIES:10.1f} bytes, {store.n_bytes / N_ENTRIES / (2 * D_MODEL):.3f} of its key's")
