"""What is simulated: sweeps from which the constants are fitted, and larger ones that the model is checked against."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.scale.loading import Load, Loaded, load_and_publish
from tests.scale.shapes import MODELS, Shape, Sweep
from tests.scale.synthetic import sweep_shards, weight_shards


def shape(n_layers: int, d_ffn: int) -> Shape:
    return Shape(f"{n_layers} x {d_ffn}", n_layers, d_ffn, 64, 50257, 1, 1, 64, False)


def sweep(shard_positions: int, n_shards: int, n_workers: int) -> Sweep:
    return Sweep(shard_positions * n_shards, shard_positions, n_workers)


FITTED = [
    (shape(4, 1024), sweep(4096, 4, 1)),
    (shape(4, 1024), sweep(4096, 64, 1)),
    (shape(4, 1024), sweep(65536, 12, 1)),
    (shape(4, 1024), sweep(262144, 6, 2)),
    (shape(2, 2048), sweep(1024, 128, 4)),
    (shape(8, 2048), sweep(16384, 4, 4)),
    (shape(8, 2048), sweep(16384, 16, 1)),
    (shape(2, 8192), sweep(4096, 24, 24)),
    (shape(4, 6144), sweep(4096, 24, 1)),
    (shape(1, 64), sweep(262144, 4, 1)),
    (shape(1, 64), sweep(262144, 16, 1)),
]
CHECKED = [
    (MODELS[0], sweep(65536, 8, 1)),
    (MODELS[0], sweep(65536, 16, 4)),
    (shape(8, 2048), sweep(8192, 96, 8)),
    (shape(16, 512), sweep(16384, 160, 1)),
    (shape(1, 128), sweep(524288, 32, 2)),
    (shape(1, 8192), sweep(4096, 64, 64)),
    (shape(1, 16384), sweep(1024, 256, 1)),
]
"""Each has more neurons, shards, positions or rows than any of FITTED; the last two more of a layer's rows than the committer's memory holds."""


@dataclass(frozen=True)
class Simulated:
    """made: seconds in which each sweep shard was made and written."""

    shape: Shape
    sweep: Sweep
    made: list[float]
    loaded: Loaded

    @property
    def loads(self) -> list[Load]:
        """Of the sweep's shards."""
        return self.loaded.loads[self.shape.n_layers :]

    def loaded_rows(self, table: str) -> int:
        return sum(load.n_rows.get(table, 0) for load in self.loaded.loads)


def simulate(shape: Shape, sweep: Sweep, seed: int) -> Simulated:
    """Write the shards, load and publish them, measure both."""
    with tempfile.TemporaryDirectory() as folder:
        staged = Path(folder) / "shards"
        for _ in weight_shards(staged, shape, seed):
            pass
        made = [seconds for _, seconds in sweep_shards(staged, shape, sweep, seed)]
        return Simulated(shape, sweep, made, load_and_publish(Path(folder), shape, sweep))
