"""Clusters of values: agglomerative, complete linkage, distance 1 - cosine (Geva et al. 2022, section 5 and its early exit).

Two spaces are clustered: the values themselves, and their scores E·v over the vocabulary.
"""

import warnings
from collections.abc import Callable, Iterable
from math import ceil, log2

import numpy as np
import pyarrow as pa
import torch
from scipy.cluster.hierarchy import linkage
from scipy.cluster.vq import kmeans2
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from ingest.model.models import Model
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker, report_shares
from schema.terms import CLUSTER_SPACES

LARGEST_BLOCK = 15_000
"""Most values that are clustered at once. Their distances take 0.9 GB, and their linkage as much again."""

PAPER_SHARE = 10_000 / 65_536
"""Clusters per value in the paper: 10,000 clusters for 16 layers of 4,096 values."""

ROWS = 1024
"""Rows of E, or of distances, that are held at once in double precision."""


def n_clusters(n_values: int) -> int:
    return max(1, round(n_values * PAPER_SHARE))


def n_blocks(n_values: int) -> int:
    """Choose the number of blocks that the values are divided into first, a power of two; 1 if all distances fit into memory."""
    return 2 ** max(0, ceil(log2(n_values / LARGEST_BLOCK)))


def cluster_rows(model: Model, seed: int, progress: Callable[[float], None]) -> pa.Table:
    """Compute the rows of `value_cluster` for the whole model, both spaces. progress: called with shares of the whole."""
    values = torch.stack([model.values(layer).cpu() for layer in range(model.n_layers)])
    n_layers, d_ffn, d_model = values.shape
    flat = values.view(-1, d_model).double().numpy()
    tables = []
    for space in CLUSTER_SPACES:
        vectors = flat if space == "value" else flat @ scores_root(model.unembedding)
        labels = clusters(unit(vectors), n_clusters(len(flat)), n_blocks(len(flat)), seed, lambda share: progress(share / len(CLUSTER_SPACES)))
        tables.append(
            pa.table(
                {
                    "space": pa.repeat(space, len(flat)),
                    "layer": np.repeat(np.arange(n_layers, dtype=np.int16), d_ffn),
                    "neuron": np.tile(np.arange(d_ffn, dtype=np.int32), n_layers),
                    "cluster": labels,
                }
            )
        )
    return pa.concat_tables(tables)


def scores_root(embedding: Tensor) -> np.ndarray:
    """Compute R, [d_model, d_model] float64, with R·Rᵀ = EᵀE: v·R has the lengths and cosines of E·v, and d_model numbers instead of d_vocab."""
    gram = np.zeros((embedding.shape[1], embedding.shape[1]))
    for part in embedding.cpu().split(ROWS):
        rows = part.double().numpy()
        gram += rows.T @ rows
    weights, vectors = np.linalg.eigh(gram)
    return vectors * np.sqrt(np.maximum(weights, 0))


def unit(vectors: np.ndarray) -> np.ndarray:
    """Divide each row by its length. A row of zeros stays as it is, at distance 1 from every other row."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)


def clusters(units: np.ndarray, n: int, blocks: int, seed: int, progress: Callable[[float], None]) -> np.ndarray:
    """Cluster unit vectors [n_vectors, d] into n clusters, numbered from 0 in the order of their first member: [n_vectors] int32.

    If there are several blocks, each is clustered by itself, and has clusters in proportion to its size.
    """
    parts = split_members(units, np.arange(len(units)), blocks, seed)
    ends = np.round(np.cumsum([len(part) for part in parts]) * n / len(units)).astype(int)
    labels = np.empty(len(units), np.int64)
    for part, start, end in zip(parts, [0, *ends[:-1]], ends, strict=True):
        labels[part] = start + complete_linkage(units[part], end - start)
        progress(len(part) / len(units))
    return in_order(labels)


def split_members(units: np.ndarray, members: np.ndarray, blocks: int, seed: int) -> list[np.ndarray]:
    """Split `members` into `blocks` blocks by halving them again and again.

    A halving orders the members along the line between two centres of 2-means, and cuts at the median, so that blocks are equally large.
    """
    if blocks == 1:
        return [members]
    with warnings.catch_warnings(action="ignore"):  # of vectors that are all one, which the median divides nonetheless
        centres, _ = kmeans2(units[members], 2, minit="++", rng=np.random.default_rng([seed % 2**64, blocks, members[0]]))
    nearer = members[np.argsort(units[members] @ (centres[1] - centres[0]), kind="stable")]
    half = (len(members) + 1) // 2
    return [part for side in (nearer[:half], nearer[half:]) for part in split_members(units, np.sort(side), blocks // 2, seed)]


def complete_linkage(units: np.ndarray, n: int) -> np.ndarray:
    """Label each vector with its cluster, [n_vectors]. The two clusters whose furthest members are nearest are merged, until n clusters are left."""
    merges = linkage(distances(units), "complete")[: len(units) - n, :2].astype(np.int64) if len(units) > 1 else np.empty((0, 2), np.int64)
    made = np.repeat(np.arange(len(units), len(units) + len(merges)), 2)
    size = len(units) + len(merges)
    edges = coo_array((np.ones(len(made)), (made, merges.ravel())), shape=(size, size))
    return connected_components(edges, directed=False)[1][: len(units)]


def distances(units: np.ndarray) -> np.ndarray:
    """Compute 1 - cosine of every pair, condensed as scipy wants it: [n·(n-1)/2]."""
    n = len(units)
    condensed = np.empty(n * (n - 1) // 2)
    at = 0
    for start in range(0, n, ROWS):
        block = 1 - units[start : start + ROWS] @ units[start:].T
        for i, row in enumerate(block):
            condensed[at : at + n - start - i - 1] = row[i + 1 :]
            at += n - start - i - 1
    return condensed.clip(0, out=condensed)


def in_order(labels: np.ndarray) -> np.ndarray:
    """Renumber the clusters from 0 in the order of their first member: [n] int32."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int32)


LINKED = 1024
"""Number of values that a dry run clusters."""


class ValueCluster(Work):
    """Plans and costs of the pass `value_cluster`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        model, seed = basis.model, basis.request.seed
        n_values = model.n_layers * model.d_ffn
        settings = {**basis.request.weights_settings(), "seed": seed, "n_clusters": n_clusters(n_values), "cluster_blocks": n_blocks(n_values)}

        def jobs(run_id: int, shards: list[int]) -> Iterable[Job]:
            is_there = basis.con.execute("SELECT count(*) FROM value_cluster").fetchall() != [(0,)]
            return (job(run_id, i, compute, seed=seed, cost=model.n_layers, is_there=is_there) for i in shards)

        yield Plan(settings, [model.n_layers], "layers", jobs)

    def rows(self, sample: CostSample) -> dict[str, int]:
        return {"value_cluster": sample.model.n_layers * sample.model.d_ffn * len(CLUSTER_SPACES)}

    def seconds(self, sample: CostSample) -> float:
        linked, n_values = unit(sample.model.values(0)[:LINKED].double().cpu().numpy()), sample.model.n_layers * sample.model.d_ffn
        pair = fastest_seconds(lambda: complete_linkage(linked, len(linked) // 2)) / len(linked) ** 2
        return pair * n_values**2 / n_blocks(n_values) * len(CLUSTER_SPACES)


def compute(worker: Worker, progress: Progress, *, seed: int, cost: float, is_there: bool) -> Tables:
    """Cluster the values. Return no rows if the atlas already has clusters, since `value_cluster` holds one clustering of the model."""
    if is_there:
        progress(cost)
        return {}
    return {"value_cluster": report_shares(lambda share: cluster_rows(worker.model, seed, share), progress, cost)}
