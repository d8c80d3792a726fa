"""Shards as a sweep writes them, without a model: top-k, statistics and text are drawn from their laws, rows and files made by the recorders' own code."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from ingest.recorders.ffn_keys import KeyStatistics, KeyTriggers
from ingest.recorders.rows import statistics_rows, text_tables, trigger_rows
from ingest.recorders.top_k_kernel import NOWHERE
from ingest.recorders.values import N_NEIGHBOURS, N_TOKENS, neighbour_rows, token_rows
from ingest.store.shards import Shard, write_shard
from ingest.text.corpora import Document
from ingest.text.sequences import CutDocument, Sequence
from schema.terms import HISTOGRAM_BINS, PRECEDING, histogram_edges
from tests.scale.shapes import Shape, Sweep

CONTEXT = 256
DOCUMENT = 16 * CONTEXT
WEIGHTS, SWEEP = 0, 1
"""run_id of the two runs."""

WORDS = [" " + "abcdefghijklmnopqrstuvwxyz"[i % 26] * (i % 8) for i in range(1000)]
"""Texts of tokens: 1 to 8 characters, 4.5 on average."""


class SampledKeys:
    """Stands where a worker's reductions do (ingest/recorders/ffn_keys.py): the same rows, at a cost that does not grow with the positions read.

    A neuron's coefficients follow a Laplace law of its own width. The k best of a shard are its largest order statistics, drawn one from the other
    (Rényi 1953), so the top-k of all shards is exactly that of a stream.
    """

    def __init__(self, shape: Shape, k: int, rng: np.random.Generator) -> None:
        self.shape, self.k, self.rng = (shape.n_layers, shape.d_ffn), k, rng
        self.width = rng.lognormal(-1, 1, self.shape)
        self.best = np.full((shape.n_layers, 2, shape.d_ffn, k), -np.inf, np.float32)
        self.positions = np.full(self.best.shape, NOWHERE, np.int64)
        self.levels = rng.integers(-127, 128, (*self.best.shape, PRECEDING), np.int8)
        self.scales = rng.random(self.best.shape, np.float32)
        self.bins = np.diff(laplace(np.array(histogram_edges()) / self.width[..., None]), prepend=0)

    def read(self, first: int, n: int) -> None:
        """Positions [first, first + n), a power of two of them and k at least."""
        # log of the share of positions with a smaller coefficient, for the largest, the second and so on
        share = np.cumsum(np.log(self.rng.random(self.best.shape)) / (n - np.arange(self.k)), axis=-1)
        found = (-np.log(-2 * np.expm1(share)) * self.width[:, None, :, None]).astype(np.float32)
        start, step = (self.rng.integers(0, n, (*self.best.shape[:-1], 1)) for _ in range(2))
        # an odd step meets a power of two of places, each once
        where = first + (start + np.arange(self.k) * (2 * step + 1)) % n
        both, places = np.concatenate([self.best, found], -1), np.concatenate([self.positions, where], -1)
        kept = np.argpartition(both, self.k, axis=-1)[..., self.k :]
        self.best, self.positions = np.take_along_axis(both, kept, -1), np.take_along_axis(places, kept, -1)
        self.n_positions, self.extremes = n, found[..., 0]
        self.histogram = self.rng.multinomial(n, self.bins)

    def triggers(self) -> KeyTriggers:
        return KeyTriggers(self.best * np.array([1, -1], np.float32)[:, None, None], self.positions, self.levels, self.scales)

    def statistics(self) -> KeyStatistics:
        n = self.n_positions
        n_active = self.histogram[..., HISTOGRAM_BINS // 2 :].sum(-1)
        # a Laplace law's mean is 0 and its square 2 on average
        return KeyStatistics(n, n_active, (2 * n) ** 0.5 * self.width, 2 * n * self.width**2, -self.extremes[:, 1], self.extremes[:, 0], self.histogram)


def laplace(x: np.ndarray) -> np.ndarray:
    """Distribution function of the Laplace law of width 1."""
    return np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)


def documents(first: int, n: int, d_vocab: int, rng: np.random.Generator) -> list[CutDocument]:
    """Texts of DOCUMENT positions each, cut into contexts, that hold positions [first, first + n); their numbers follow from the positions."""
    return [document(i, min(DOCUMENT, first + n - i), d_vocab, rng) for i in range(first, first + n, DOCUMENT)]


def document(first: int, n: int, d_vocab: int, rng: np.random.Generator) -> CutDocument:
    # a few tokens are most of the text, as in language
    tokens = (d_vocab * rng.random(n) ** 3).astype(np.int32)
    words = [WORDS[t % len(WORDS)] for t in tokens.tolist()]
    ends = np.cumsum([len(w) for w in words]).astype(np.int32)
    columns = (tokens, np.append(tokens[1:], np.int32(-1)), np.append(np.int32(0), ends[:-1]), ends)
    number = first // DOCUMENT
    sequences = tuple(Sequence((first + i) // CONTEXT, number, first + i, *(c[i : i + CONTEXT] for c in columns)) for i in range(0, n, CONTEXT))
    return CutDocument(number, Document(f"document {number}", "".join(words), {"year": 1790 + number % 237}), sequences)


def weight_shards(folder: Path, shape: Shape, seed: int) -> Iterator[Shard]:
    """One a layer."""
    rng = np.random.default_rng(seed)
    for layer in range(shape.n_layers):
        yield write_shard(folder, WEIGHTS, layer, weight_tables(shape, layer, rng))


def weight_tables(shape: Shape, layer: int, rng: np.random.Generator) -> dict[str, pa.Table]:
    n, near = shape.d_ffn, min(N_NEIGHBOURS, shape.n_neurons - 1)
    columns = {name: rng.random(n, np.float32) for name in ("key_norm", "gate_norm", "value_norm", "key_value_cosine", "gate_value_cosine", "value_max_prob")}
    places = {"layer": np.full(n, layer, np.int16), "neuron": np.arange(n, dtype=np.int32)}
    tokens = {f"{d}_token": rng.integers(0, shape.d_vocab, (n, N_TOKENS)) for d in ("promoted", "suppressed")}
    scores = {f"{d}_{name}": rng.random((n, N_TOKENS), np.float32) for d in ("promoted", "suppressed") for name in ("score", "prob")}
    return {
        "neuron": pa.table({**places, **columns, "value_top_token_id": tokens["promoted_token"][:, 0].astype(np.int32)}),
        "value_token": pa.concat_tables([token_rows(layer, direction, {**tokens, **scores}) for direction in ("promoted", "suppressed")]),
        "value_neighbour": neighbour_rows(layer, rng.random((n, near), np.float32), rng.integers(0, shape.n_neurons, (n, near)), n),
    }


def sweep_shards(folder: Path, shape: Shape, sweep: Sweep, seed: int) -> Iterator[tuple[Shard, float]]:
    """Every shard of a sweep, each by the worker whose turn it is, and the processor seconds of the recorders and the writing."""
    rng = np.random.default_rng(seed)
    workers = [SampledKeys(shape, sweep.k, rng) for _ in range(min(sweep.n_workers, sweep.n_shards))]
    for shard_id in range(sweep.n_shards):
        first, n = shard_id * sweep.shard_positions, sweep.shard_positions
        keys = workers[shard_id % len(workers)]
        keys.read(first, n)
        texts = documents(first, n, shape.d_vocab, rng)
        start = time.process_time()
        tables = {**text_tables(texts, 0), "trigger": trigger_rows(keys, 0, first, first + n), "neuron_statistics": statistics_rows(keys, 0)}
        shard = write_shard(folder, SWEEP, shard_id, tables)
        yield shard, time.process_time() - start
