"""How far back the heads of a layer look: what RoPE is averaged over, where one number is to stand for all distances.

Most distances up to the longest context that a model was made for are seen by nobody, and the mean over them is another table than over those that are read.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.positions import MOST_POSITIONS, mean_rotation
from ingest.recorders.attention_sums import bin_of
from ingest.recorders.loaded_rows import distance_weights, finished_runs
from schema.errors import AtlasError


@dataclass(frozen=True, eq=False)
class Distances:
    """context: tokens of the longest sequences that are read.

    seen: of each text its context, and the weight of each head in each bin of distances, [n_heads, bins].
    """

    context: int
    seen: tuple[tuple[int, np.ndarray], ...] = ()

    def shares(self, window: int | None) -> np.ndarray:
        """Share of each distance from 0 on, [n_heads, n] float64, rows of sum 1: of a head's weight on earlier positions, in a bin as pairs of positions lie.

        A head without any, and all heads in one row where no text was seen, look over all pairs alike.
        """
        pairs = pairs_at(self.context, window)
        found = np.zeros((len(self.seen[0][1]) if self.seen else 1, len(pairs)))
        for context, weights in self.seen:
            there = pairs_at(context, window)
            bins = bin_of(np.arange(len(there)))
            found[:, : len(there)] += weights[:, bins] * there / np.maximum(np.bincount(bins, there), 1)[bins]
        found[found.sum(1) == 0] = pairs
        return found / found.sum(1, keepdims=True)


def pairs_at(context: int, window: int | None) -> np.ndarray:
    """Count the pairs of a position and an earlier one it sees, by their distance in a sequence, [n]; at distance 0 none, unless that is all that is seen."""
    n = min(context, window or context)
    pairs = context - np.arange(n, dtype=np.float64)
    pairs[0] = n == 1
    return pairs


def averaged_rotation(model: Model, layer: int, distances: Distances | None) -> tuple[Tensor, Tensor] | None:
    """Average the cosine and sine of a layer's RoPE, [n_heads or 1, 1, pairs] each; None without RoPE."""
    attention = model.architecture.attention
    if attention.rotary is None or distances is None:
        return None
    shares = torch.from_numpy(distances.shares(attention.window(model.hf.config, layer))).to(model.device)
    return mean_rotation(model, attention.rotary, layer, shares)


def distance_settings(con: duckdb.DuckDBPyConnection, model: Model, context: int) -> dict[str, object]:
    """Build a run's settings about its distances: the runs that saw where heads look, or the context that an ingest reads; nothing without RoPE."""
    if model.architecture.attention.rotary is None:
        return {}
    if runs := finished_runs(con, "head_statistics"):
        return {"reads": {"attention_distance": runs}}
    return {"context": read_context(model, context)}


def are_named(distances: Mapping[str, object], settings: Mapping[str, object]) -> bool:
    """Tell whether a run's settings name these distances, whatever else they say that it reads."""

    def context_and_distance(of: Mapping[str, object]) -> tuple[object, object]:
        reads = of.get("reads")
        return of.get("context"), reads.get("attention_distance") if isinstance(reads, Mapping) else None

    return context_and_distance(distances) == context_and_distance(settings)


def read_context(model: Model, context: int) -> int:
    """Limit a context to what the model reads of it. Raises AtlasError for one whose positions float32 does not tell apart."""
    found = min(context, model.max_context or context)
    if found > MOST_POSITIONS:
        raise AtlasError(f"--context {context}: RoPE is averaged over its distances, and float32 tells {MOST_POSITIONS:,} positions apart; give a shorter one")
    return found


def distances_of(con: duckdb.DuckDBPyConnection, model: Model, settings: Mapping[str, object], layer: int) -> Distances | None:
    """Read the distances that a run's settings name, for a layer; None without RoPE. Raises AtlasError where they name none."""
    if model.architecture.attention.rotary is None:
        return None
    reads, context = settings.get("reads"), settings.get("context")
    if isinstance(reads, Mapping) and reads.get("attention_distance"):
        seen = distance_weights(con, reads["attention_distance"], layer)
        return Distances(max(longest for longest, _ in seen), tuple(seen))
    if not isinstance(context, int):
        raise AtlasError(
            "an unfinished run of circuits does not say which distances it used: an earlier release began it and averaged RoPE over different ones. Going on "
            "would mix two kinds of rows; ingest into a new file"
        )
    return Distances(context)
