"""Distances over which the heads of a layer look back. RoPE is averaged over them wherever one number has to stand for all distances.

Most distances up to a model's longest context never occur in a text, and a mean over all of them differs from one over the distances that do occur.
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
    """Distances at which the heads of one layer look at earlier positions.

    context: tokens of the longest sequences. seen: for each text, its context and the attention weight of each head in each bin of distances,
    [n_heads, bins].
    """

    context: int
    seen: tuple[tuple[int, np.ndarray], ...] = ()

    def shares(self, window: int | None) -> np.ndarray:
        """Compute how each head's weight on earlier positions divides over the distances from 0 on: [n_heads, n] float64, rows sum to 1.

        Within a bin, each distance has weight in proportion to its pairs of positions. A head without weight counts all pairs equally. If no text was seen,
        there is a single row, for all heads, that counts all pairs equally.
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
    """Count, for each distance, the pairs of a position and an earlier one that it sees in a sequence: [n].

    The count at distance 0 is 0, or 1 if 0 is the only distance.
    """
    n = min(context, window or context)
    pairs = context - np.arange(n, dtype=np.float64)
    pairs[0] = n == 1
    return pairs


def averaged_rotation(model: Model, layer: int, distances: Distances | None) -> tuple[Tensor, Tensor] | None:
    """Average the cosine and sine of a layer's RoPE over distances, [n_heads or 1, 1, pairs] each; None without RoPE or without distances."""
    attention = model.attention(layer)
    if attention.rotary is None or distances is None:
        return None
    shares = torch.from_numpy(distances.shares(attention.window(model.hf.config, layer))).to(model.device)
    return mean_rotation(model, attention.rotary, layer, shares)


def distance_settings(con: duckdb.DuckDBPyConnection, model: Model, context: int) -> dict[str, object]:
    """Build the part of a run's settings that names its distances; empty without RoPE.

    It names the finished runs of `head_statistics` or, if there are none, the context of this ingest.
    """
    if not model.is_rotary:
        return {}
    if runs := finished_runs(con, "head_statistics"):
        return {"reads": {"attention_distance": runs}}
    return {"context": read_context(model, context)}


def are_named(distances: Mapping[str, object], settings: Mapping[str, object]) -> bool:
    """Tell whether a run's settings name these distances, regardless of anything else that the run reads."""

    def context_and_distance(of: Mapping[str, object]) -> tuple[object, object]:
        reads = of.get("reads")
        return of.get("context"), reads.get("attention_distance") if isinstance(reads, Mapping) else None

    return context_and_distance(distances) == context_and_distance(settings)


def read_context(model: Model, context: int) -> int:
    """Cap a context at the model's longest. Raises AtlasError if float32 cannot tell its positions apart."""
    found = min(context, model.max_context or context)
    if found > MOST_POSITIONS:
        raise AtlasError(f"--context {context}: RoPE is averaged over its distances, but float32 tells only {MOST_POSITIONS:,} positions apart; give less")
    return found


def distances_of(con: duckdb.DuckDBPyConnection, model: Model, settings: Mapping[str, object], layer: int) -> Distances | None:
    """Read, for a layer, the distances that a run's settings name; None without RoPE. Raises AtlasError if the settings name none."""
    if model.attention(layer).rotary is None:
        return None
    reads, context = settings.get("reads"), settings.get("context")
    if isinstance(reads, Mapping) and reads.get("attention_distance"):
        seen = distance_weights(con, reads["attention_distance"], layer)
        return Distances(max(longest for longest, _ in seen), tuple(seen))
    if not isinstance(context, int):
        raise AtlasError(
            "an unfinished run of circuits does not say which distances it used: an earlier release began it and averaged RoPE over different ones. Continuing "
            "it would mix two kinds of rows; ingest into a new file"
        )
    return Distances(context)
