"""Edges of attention: a destination may not read a source, because the mask says so. With no edge in a piece that is read the mask stays as it was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ingest.acting.edits import AssignedArm
from ingest.model.models import Model
from schema.errors import AtlasError

Edges = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class BlockedEdges:
    """Edges that some heads of some rows may not use."""

    rows: slice
    heads: tuple[int, ...]
    edges: Edges


def blocked_edges(model: Model, assigned: Sequence[AssignedArm]) -> Mapping[int, list[BlockedEdges]]:
    """Layer → what is blocked there. AtlasError for a position that will not be read, and for one that would have nothing left to read."""
    found: dict[int, list[BlockedEdges]] = {}
    for one in assigned:
        of_head: dict[tuple[int, int], Edges] = {}
        for change in one.arm:
            if change.op == "block" and change.layer is not None and change.units is not None:
                cell = (change.layer, change.units[0])
                of_head[cell] = of_head.get(cell, frozenset()) | frozenset(change.edges)
        alike: dict[tuple[int, Edges], list[int]] = {}
        for (layer, head), edges in of_head.items():
            alike.setdefault((layer, edges), []).append(head)
        for (layer, edges), heads in alike.items():
            require_readable(model, layer, heads, edges, one.n_positions)
            found.setdefault(layer, []).append(BlockedEdges(one.rows, tuple(heads), edges))
    return found


def require_readable(model: Model, layer: int, heads: Sequence[int], edges: Edges, n_positions: int) -> None:
    window = model.architecture.attention.window(model.hf.config, layer)
    left: dict[int, set[int]] = {}
    for destination, source in sorted(edges):
        if destination >= n_positions:
            raise AtlasError(f"block of layer {layer}: position {destination} was asked for; the sequence has positions 0 to {n_positions - 1}")
        seen = range(0 if window is None else max(0, destination - window + 1), destination + 1)
        left.setdefault(destination, set(seen)).discard(source)
    for destination, sources in left.items():
        if not sources:
            raise AtlasError(f"block of layer {layer}, head {heads[0]}: position {destination} would have nothing left to read")


def with_edges(model: Model, found: Sequence[BlockedEdges], mask: Tensor | None, shape: tuple[int, int], start: int) -> Tensor | None:
    """Block further edges in a copy of a layer's mask for positions start, …, [batch, n_heads or 1, seq, sources]; the mask itself where there are none.

    mask: what the model's code made, None for nothing but causal, of booleans where True may be read, or added to the scores. shape: batch and seq.
    The sources are the last that there are, of a cache that keeps a window.
    """
    batch, seq = shape
    here = [(one, [edge for edge in one.edges if start <= edge[0] < start + seq]) for one in found]
    if not any(edges for _, edges in here):
        return mask
    if mask is None:
        mask = causal(model, seq, start)
    n_heads = model.n_heads if any(len(one.heads) < model.n_heads for one in found) else 1
    made = mask.expand(batch, max(n_heads, mask.shape[1]), seq, -1).clone()
    offset = start + seq - made.shape[-1]
    never: Any = False if made.dtype == torch.bool else torch.finfo(made.dtype).min
    for one, edges in here:
        pairs = torch.tensor([(destination - start, source - offset) for destination, source in edges if source >= offset], dtype=torch.long).view(-1, 2)
        heads = torch.tensor(one.heads if made.shape[1] > 1 else [0])
        made[one.rows][:, heads[:, None], pairs[:, 0], pairs[:, 1]] = never
    return made


def causal(model: Model, seq: int, start: int) -> Tensor:
    """Which sources each of the positions start, … sees, [1, 1, seq, start + seq] of booleans. AtlasError where the model's attention takes another mask."""
    code = model.hf.config._attn_implementation
    if code != "sdpa":
        raise AtlasError(f"model {model.name}: its attention runs as {code}, which is given no mask that edges could be taken from")
    sources = torch.arange(start + seq, device=model.input_device)
    return (sources <= sources[start:, None])[None, None]
