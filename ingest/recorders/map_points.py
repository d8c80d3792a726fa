"""Rows of the map: values, and states of traced positions, placed in the plane.

UMAP (McInnes et al. 2018) places them by their exact nearest neighbours by cosine. It starts from a fixed layout: the plane of the principal components.
All randomness is seeded, so the same vectors and seed give the same bytes on one machine; and since the start is fixed, global structure does not depend on
the seed (Kobak and Linderman 2021).
"""

import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ingest.model.models import Model
from ingest.recorders.loaded_rows import neighbours, states_of, traced_positions
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.values import N_NEIGHBOURS, find_neighbours
from ingest.text.survey import select_by_hash
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.terms import LAYOUTS

EPOCHS = 300
"""Epochs of UMAP's gradient descent. The library itself takes 500 for few points and 200 for many."""

LEAST = 3
"""Fewest points that UMAP places. Fewer have no meaningful neighbours, and stay at their start."""

WIDTH = 10.0
"""Largest modulus of a coordinate of the start, as in the library's own start."""

NOISE, ROUNDING = 1e-4, 1e-9


def value_rows(model: Model, run_id: int, seed: int, indices: np.ndarray, cosines: np.ndarray) -> pa.Table:
    """Build the rows of all values, placed by their neighbours. Only one layer's values are in memory at a time.

    indices, cosines: the neighbours of each value, [values, neighbours].
    """
    xy = place_points(indices, cosines, principal_plane(model.values, model.n_layers), seed)
    neurons = np.tile(np.arange(model.d_ffn, dtype=np.int32), model.n_layers)
    columns = {"neuron": neurons, "position_id": pa.nulls(len(xy), pa.int64())}
    return point_rows("value", run_id, np.repeat(np.arange(model.n_layers), model.d_ffn), columns, xy)


def state_rows(model: Model, site: str, run_id: int, seed: int, positions: np.ndarray, states: np.ndarray) -> pa.Table:
    """Build the rows of the states at a site of every layer, placed together in one plane. states: [n_layers, positions, d_model] float32."""
    n_layers = len(states)
    units = torch.stack([normalize(torch.from_numpy(layer), dim=1) for layer in states]).to(model.device)
    cosines, indices = (np.concatenate(part) for part in zip(*(find_neighbours(layer, [units]) for layer in range(n_layers)), strict=True))
    xy = place_points(indices, cosines, principal_plane(units.__getitem__, n_layers), seed)
    columns = {"neuron": pa.nulls(len(xy), pa.int32()), "position_id": np.tile(positions, n_layers)}
    return point_rows(site, run_id, np.repeat(np.arange(n_layers), len(positions)), columns, xy)


def point_rows(layout: str, run_id: int, layers: np.ndarray, columns: dict[str, object], xy: np.ndarray) -> pa.Table:
    shared = {"run_id": np.full(len(xy), run_id, np.int32), "layout": pa.repeat(layout, len(xy)), "layer": layers.astype(np.int16)}
    return pa.table({**shared, **columns, "x": xy[:, 0].copy(), "y": xy[:, 1].copy()})


MOST_STATES = 50_000
"""Most states that are placed. If there are more, only those at a seeded sample of positions are placed.

With 1,024 dimensions their vectors take 0.2 GB, and each is compared with all others.
"""

PROBED = 1024
"""Number of values that a dry run places."""


class Map(Work):
    """Plans and costs of the pass `map`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        """Plan a layout of the values and, if any position is traced, one of states.

        The number of traced positions is a setting of the layout of states, so that a map made after a further trace is a new run.
        """
        settings = {**basis.request.weights_settings(), "seed": basis.request.seed, "n_neighbours": N_NEIGHBOURS, "n_epochs": EPOCHS}
        n_traced = len(traced_positions(basis.con))
        arguments = {"value": value_arguments, "resid_post": state_arguments}
        for layout in LAYOUTS if n_traced else ("value",):
            of = {"layout": layout, "seed": basis.request.seed}

            def jobs(run_id: int, shards: list[int], of: dict = of) -> Iterable[Job]:
                return (job(run_id, i, compute, run_id=run_id, **of, **arguments[of["layout"]](basis)) for i in shards)

            yield Plan({**settings, "layout": layout, **({} if layout == "value" else {"n_traced": n_traced})}, [1], "layouts", jobs)

    def rows(self, sample: CostSample) -> dict[str, int]:
        return {"map_point": sample.model.n_layers * sample.model.d_ffn + n_states(sample)}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the seconds: the descent takes the same time for every point, and all pairs of states are compared before."""
        units = normalize(sample.model.values(0)[:PROBED], dim=1)
        cosines, indices = find_neighbours(0, [units.unsqueeze(0)])
        start = principal_plane(lambda _: units, 1)
        point = fastest_seconds(lambda: place_points(indices, cosines, start, 0)) / len(units)
        pair = fastest_seconds(lambda: find_neighbours(0, [units.unsqueeze(0)])) / len(units) ** 2
        return point * (sample.model.n_layers * sample.model.d_ffn + n_states(sample)) + pair * n_states(sample) ** 2


def value_arguments(basis: Basis) -> dict[str, object]:
    """Read the neighbours that the weights' run has found, so that values need not be compared again."""
    indices, cosines = neighbours(basis.con, basis.model.n_layers, basis.model.d_ffn)
    return {"indices": indices, "cosines": cosines}


def state_arguments(basis: Basis) -> dict[str, object]:
    """Read positions [n] and states [n_layers, n, d_model] of all traced positions, or of a seeded sample with at most MOST_STATES states."""
    n_layers = basis.model.n_layers
    positions = select_by_hash(basis.request.seed, 0, traced_positions(basis.con), max(MOST_STATES // n_layers, 1))
    return {"positions": positions, "states": np.stack([states_of(basis.con, layer, "resid_post", positions) for layer in range(n_layers)])}


def compute(worker: Worker, progress: Progress, *, run_id: int, layout: str, seed: int, **of: np.ndarray) -> Tables:
    rows = value_rows(worker.model, run_id, seed, **of) if layout == "value" else state_rows(worker.model, layout, run_id, seed, **of)
    progress(1)
    return {"map_point": rows}


def n_states(sample: CostSample) -> int:
    layers = sample.model.n_layers
    return layers * min(len(sample.seen.sample), max(MOST_STATES // layers, 1)) if sample.seen else 0


def place_points(indices: np.ndarray, cosines: np.ndarray, start: np.ndarray, seed: int) -> np.ndarray:
    """Compute coordinates of points, [n, 2] float32. indices, cosines: the nearest neighbours of each point, nearest first, [n, k]; start: [n, 2]."""
    n = len(start)
    if n < LEAST:
        return start.astype(np.float32)
    # imported here: it takes seconds, and most runs make no map
    from umap import UMAP

    keep_compiled()
    # as the library does to a start of its own: points that begin as one could not be told apart
    noise = np.random.default_rng(seed % 2**32).normal(scale=NOISE, size=start.shape)
    k = min(indices.shape[1], n - 2)
    itself = np.arange(n)[:, None]
    neighbours = np.hstack([itself, indices[:, :k]]).astype(np.int32)
    apart = np.hstack([np.zeros((n, 1)), np.clip(1 - cosines[:, :k], 0, 2)]).astype(np.float32)
    reducer = UMAP(
        n_neighbors=k + 1, metric="cosine", n_epochs=EPOCHS, random_state=seed % 2**32, n_jobs=1, init=(start + noise).astype(np.float32),
        precomputed_knn=(neighbours, apart), disconnection_distance=np.inf,
    )  # fmt: skip
    with warnings.catch_warnings(action="ignore"):  # that new points cannot be placed later: none are
        # the neighbours are all that it needs of the vectors
        return np.asarray(reducer.fit_transform(np.zeros((n, 1), np.float32)), np.float32)


def keep_compiled() -> None:
    """Let numba keep on disk what it compiles of UMAP, which takes about six seconds of each process that makes a map."""
    from numba.core.registry import CPUDispatcher
    from umap import layouts, umap_

    for module in (umap_, layouts):
        for function in vars(module).values():
            # where no place can be written it is compiled each time
            if isinstance(function, CPUDispatcher) and not function.signatures:
                with suppress(RuntimeError):
                    function.enable_caching()


def principal_plane(part: Callable[[int], Tensor], n_parts: int) -> np.ndarray:
    """Project vectors, normalised to length 1, onto their first two principal components: [n, 2].

    part: returns the vectors [m, d] of a part by its number, below n_parts.
    """
    n, total, gram = 0, np.zeros(()), np.zeros(())
    for i in range(n_parts):
        units = unit(part(i))
        n, total, gram = n + len(units), total + units.sum(0), gram + units.T @ units
    mean = total / n
    axes = np.linalg.eigh(gram / n - np.outer(mean, mean))[1][:, :-3:-1]
    # an eigenvector has no sign of its own
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
    start = np.concatenate([(unit(part(i)) - mean) @ axes for i in range(n_parts)])
    extent = np.abs(start).max()
    # vectors that are all one differ by rounding alone
    return start * (WIDTH / extent) if extent > ROUNDING else np.zeros_like(start)


def unit(vectors: Tensor) -> np.ndarray:
    """Divide each vector by its length, in double precision; a vector of length 0 stays as it is."""
    return normalize(vectors.double(), dim=1).cpu().numpy()
