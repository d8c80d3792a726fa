"""What is modelled: the sizes of a model, and a sweep of a corpus in equal shards by equal workers."""

import math
from dataclasses import dataclass

from ingest.recorders.values import N_NEIGHBOURS, N_TOKENS
from schema.terms import TAILS


@dataclass(frozen=True)
class Shape:
    """The sizes of a model that rows, bytes and seconds follow from."""

    name: str
    n_layers: int
    d_ffn: int
    d_model: int
    d_vocab: int
    n_parameters: int
    n_heads: int
    d_head: int
    is_gated: bool
    is_tied: bool = True

    @property
    def n_neurons(self) -> int:
        return self.n_layers * self.d_ffn


MODELS = (
    Shape("GPT-2 small", 12, 3072, 768, 50257, 124_439_808, 12, 64, False),
    Shape("GPT-2 XL", 48, 6400, 1600, 50257, 1_557_611_200, 25, 64, False),
    Shape("Llama-3.2-1B", 16, 8192, 2048, 128256, 1_235_814_400, 32, 64, True),
    Shape("Llama-3.1-8B", 32, 14336, 4096, 128256, 8_030_261_248, 32, 128, True, False),
    Shape("Llama-3.1-70B", 80, 28672, 8192, 128256, 70_553_706_496, 64, 128, True, False),
)
"""As their configurations on the hub give them; parameters with the embeddings, a tied one once."""

CORPORA = (10**6, 10**7, 10**8, 10**9, 10**10, 10**11)
GPUS = (1, 8, 64, 1000)
K = 50
"""`--triggers`, as `atlas ingest` has it by default."""

SHARD_POSITIONS, LARGEST_SHARD, MANY_SHARDS = 65536, 1 << 20, 64
"""As `atlas ingest` has it where no `--shard-positions` is given: so many in a shard, twice as many rather than more shards, up to the largest."""


@dataclass(frozen=True)
class Sweep:
    """`n_positions` in shards of `shard_positions`, given in turn to `n_workers`, which keep the k best of each key and tail."""

    n_positions: int
    shard_positions: int
    n_workers: int = 1
    k: int = K

    @property
    def n_shards(self) -> int:
        return -(-self.n_positions // self.shard_positions)


def usual(n_positions: int, n_workers: int = 1) -> Sweep:
    """In shards of the size that `atlas ingest` chooses."""
    doublings = max(0, math.ceil(math.log2(n_positions / SHARD_POSITIONS / MANY_SHARDS)))
    return Sweep(n_positions, min(SHARD_POSITIONS << doublings, LARGEST_SHARD, n_positions), n_workers)


EULER = 0.5772156649015329


def harmonic(n: int) -> float:
    """1 + 1/2 + … + 1/n; from 1,000 on by its asymptotic series, right to 1e-12."""
    if n < 1000:
        return sum(1 / i for i in range(1, n + 1))
    return math.log(n) + EULER + 1 / (2 * n) - 1 / (12 * n * n)


def candidates(shape: Shape, sweep: Sweep, k: int) -> float:
    """Expected triggers that the shards bring which are among the k best of what their worker has seen, all keys and both tails.

    The order of positions says nothing of a coefficient's size, so of the k best of i equal shards k/i lie in the i-th: a worker's shards bring
    k · (1 + 1/2 + … + 1/i). Every worker begins anew. Holds for shards of k positions and more.
    """
    each, more = divmod(sweep.n_shards, sweep.n_workers)
    of_workers = more * harmonic(each + 1) + (sweep.n_workers - more) * harmonic(each)
    return len(TAILS) * shape.n_neurons * k * of_workers


def loaded_rows(shape: Shape, sweep: Sweep) -> dict[str, float]:
    """Rows that weights and sweep bring to the committer's file; those of `trigger` are expected, the others exact (equal shards)."""
    n = shape.n_neurons
    weights = {"neuron": n, "value_token": 2 * N_TOKENS * n, "value_neighbour": min(N_NEIGHBOURS, n - 1) * n}
    return {**weights, "position": sweep.n_positions, "neuron_statistics": n * sweep.n_shards, "trigger": candidates(shape, sweep, sweep.k)}


def published_rows(shape: Shape, sweep: Sweep) -> dict[str, float]:
    """Rows of a snapshot when all is loaded: exact."""
    k = min(sweep.k, sweep.n_positions)
    return {**loaded_rows(shape, sweep), "neuron_statistics": shape.n_neurons, "trigger": len(TAILS) * shape.n_neurons * k}
