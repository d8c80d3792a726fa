"""Hooks that apply arms to every forward pass within a context; each arm acts on its own rows of the batch.

The hooks change a copy of a tensor, and run before hooks that record it. Positions count from the start of the sequence, with or without a cache.
An attention edge is blocked in the mask, so that its destination cannot read its source. The mask is unchanged if this forward pass has no blocked edge.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ingest.acting.edits import AssignedArm, Edit, edits
from ingest.acting.places import Place, acting_place, module_at, state
from ingest.model.hooks import output_state
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention
from schema.interventions.sites import REPLACING

SAME_CELL = {"pre_activation": "coefficient"}
"""Site → the site whose numbers it determines: if an arm sets both, setting one has no effect."""

Edges = frozenset[tuple[int, int]]


class ArmHooks:
    """Hooks that apply arms, and their state during one forward pass."""

    def __init__(self, model: Model, assigned: Sequence[AssignedArm], between: Callable[[], None]) -> None:
        self.model, self.assigned, self.between = model, assigned, between
        self.edits: dict[Place, list[Edit]] = {}
        self.watched: set[int] = set()
        """Layers whose resid_pre is needed by an edit later in the block."""
        for one in assigned:
            require_one_replacement(one.arm, one.n_prompt)
            for change, edit in edits(model, one, self.resid_pre_at):
                self.edits.setdefault(acting_place(model, (change.site, change.layer)), []).append(edit)
                if change.site == "resid_mid" and change.op == "patch" and change.layer is not None:
                    self.watched.add(change.layer)
        self.blocked = blocked_edges(model, assigned)
        self.resid_pre: dict[int, Tensor] = {}
        self.shape, self.start, self.n_read = (0, 0), 0, 0
        self.cache: object = None
        self.fired: set[object] = set()
        self.changed = {row for one in assigned if any(change.op == "block" for change in one.arm) for row in range(one.rows.start, one.rows.stop)}
        """Rows in which an edit changed a bit or an arm blocks an edge. Outputs cannot show this: matrix products may round equal rows differently."""

    def resid_pre_at(self, layer: int, rows: slice, indices: list[int]) -> Tensor:
        return self.resid_pre[layer][rows][:, [index - self.start for index in indices]]

    def begin(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Set the position at which this forward pass begins. Raises AtlasError for left padding, a cache filled without these arms, and rows out of range."""
        given: Tensor = args[0] if args else kwargs["input_ids"]
        self.shape, cache, mask = (given.shape[0], given.shape[1]), kwargs.get("past_key_values"), kwargs.get("attention_mask")
        n_cached = 0 if cache is None else cache.get_seq_length()
        if n_cached and (cache is not self.cache or n_cached != self.n_read):
            raise AtlasError(f"the cache holds {n_cached} positions that were not read under these arms; read them again")
        if isinstance(mask, Tensor) and mask.dim() == 2 and not bool(mask[:, 0].all()):
            raise AtlasError("a sequence is padded on the left, but positions count from its first token; pad on the right, or give equal lengths")
        for one in self.assigned:
            if one.rows.stop > self.shape[0]:
                raise AtlasError(f"an arm acts on rows {one.rows.start} to {one.rows.stop - 1}; the batch has rows 0 to {self.shape[0] - 1}")
        self.start = n_cached
        self.fired.clear()

    def end(self, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        """Store the cache and its number of positions. Raises AtlasError if a module that an arm acts on was not called."""
        self.cache, self.n_read = getattr(output, "past_key_values", None), self.start + self.shape[1]
        self.resid_pre.clear()
        expected = [*(place.path for place in self.edits), *(self.attention_path(layer) for layer in self.blocked)]
        if missing := [path for path in expected if path not in self.fired]:
            raise AtlasError(f"model {self.model.name}: nothing was changed at {', '.join(missing[:5])}: the model's code does not call this module")

    def attention_path(self, layer: int) -> str:
        return acting_place(self.model, ("attention", layer)).path

    def apply_edits(self, place: Place, x: Tensor) -> Tensor:
        """Apply a place's edits to a copy of x; return x itself if none of them acts on a position of this forward pass."""
        self.fired.add(place.path)
        n, changed = self.shape[1], None
        for edit in self.edits[place]:
            self.between()
            indices = sorted(index for index in edit.indices if self.start <= index < self.start + n)
            if not indices:
                continue
            changed = x.clone() if changed is None else changed
            part = state(changed, self.shape)[edit.rows]
            local = torch.tensor([index - self.start for index in indices], device=x.device)
            at = (slice(None), local) if edit.columns is None else (slice(None), local[:, None], edit.columns.to(x.device))
            given = part[at]
            new = edit.new(given, indices)
            same = (new == given).reshape(len(given), -1).all(1).tolist()
            self.changed.update(row for row, is_same in zip(range(edit.rows.start, edit.rows.stop), same, strict=True) if not is_same)
            part[at] = new
        return x if changed is None else changed

    def input_hook(self, place: Place) -> Callable[..., Any]:
        return lambda _module, args: (self.apply_edits(place, args[0]), *args[1:])

    def output_hook(self, place: Place) -> Callable[..., Any]:
        def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
            changed = self.apply_edits(place, output_state(output))
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        return hook

    def watch_hook(self, layer: int) -> Callable[..., None]:
        def hook(_module: nn.Module, args: tuple[Any, ...]) -> None:
            self.resid_pre[layer] = state(args[0], self.shape)

        return hook

    def mask_hook(self, layer: int) -> Callable[..., Any]:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self.fired.add(self.attention_path(layer))
            mask = with_edges(self.model, self.blocked[layer], kwargs.get("attention_mask"), self.shape, self.start)
            return args, kwargs | {"attention_mask": mask}

        return hook


@contextmanager
def apply_arms(model: Model, assigned: Sequence[AssignedArm], between: Callable[[], None] = lambda: None) -> Iterator[ArmHooks]:
    """Apply arms to every forward pass within the context; their hooks are removed when it ends, also by an exception.

    Yields an ArmHooks, whose `changed` holds the rows that were changed. between: called before each edit; an exception from it ends the forward pass.
    Raises AtlasError for positions, prompts and vectors that do not exist and for a cell that is replaced twice; and, after a forward pass, for a module that
    was not called.
    """
    pass_ = ArmHooks(model, assigned, between)
    backbone = model.backbone_module
    modules = {place: module_at(model, place) for place in pass_.edits}
    attention = {layer: module_at(model, acting_place(model, ("attention", layer))) for layer in pass_.blocked}
    watched = {layer: module_at(model, Place(model.layer_path(layer), False)) for layer in pass_.watched}
    with ExitStack() as stack:
        # each goes before those that there are, so that a block's input is changed before it is watched
        for layer, module in watched.items():
            stack.callback(module.register_forward_pre_hook(pass_.watch_hook(layer), prepend=True).remove)
        for layer, module in attention.items():
            stack.callback(module.register_forward_pre_hook(pass_.mask_hook(layer), prepend=True, with_kwargs=True).remove)
        for place, module in modules.items():
            if place.is_output:
                stack.callback(module.register_forward_hook(pass_.output_hook(place), prepend=True).remove)
            else:
                stack.callback(module.register_forward_pre_hook(pass_.input_hook(place), prepend=True).remove)
        stack.callback(backbone.register_forward_pre_hook(pass_.begin, prepend=True, with_kwargs=True).remove)
        stack.callback(backbone.register_forward_hook(pass_.end).remove)
        yield pass_


@dataclass(frozen=True)
class BlockedEdges:
    """Edges that some heads of some rows may not use."""

    rows: slice
    heads: tuple[int, ...]
    edges: Edges


def blocked_edges(model: Model, assigned: Sequence[AssignedArm]) -> Mapping[int, list[BlockedEdges]]:
    """Map each layer to its blocked edges. Raises AtlasError for a destination outside the sequence, and for a destination left without a source."""
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
    window = model.attention(layer).window(model.hf.config, layer)
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
    """Block edges in a copy of a layer's mask for positions from `start` on, [batch, n_heads or 1, seq, sources]; return the mask itself if there are none.

    mask: from the model's code: booleans, True for a source that may be read, or numbers added to the attention scores; None for a plain causal mask.
    shape: batch and seq. If the cache keeps only a window, `sources` covers only the last positions.
    """
    batch, seq = shape
    here = [(one, [edge for edge in one.edges if start <= edge[0] < start + seq]) for one in found]
    if not any(edges for _, edges in here):
        return mask
    if mask is None:
        mask = causal_mask(model, seq, start)
    n_heads = model.n_heads if any(len(one.heads) < model.n_heads for one in found) else 1
    made = mask.expand(batch, max(n_heads, mask.shape[1]), seq, -1).clone()
    offset = start + seq - made.shape[-1]
    never: Any = False if made.dtype == torch.bool else torch.finfo(made.dtype).min
    for one, edges in here:
        pairs = torch.tensor([(destination - start, source - offset) for destination, source in edges if source >= offset], dtype=torch.long).view(-1, 2)
        heads = torch.tensor(one.heads if made.shape[1] > 1 else [0])
        made[one.rows][:, heads[:, None], pairs[:, 0], pairs[:, 1]] = never
    return made


def causal_mask(model: Model, seq: int, start: int) -> Tensor:
    """Build the causal mask for positions from `start` on, [1, 1, seq, start + seq] booleans: True for a source that the position may read.

    Raises AtlasError if the model's attention implementation is not sdpa, the only one known to take this mask.
    """
    code = model.hf.config._attn_implementation
    if code != "sdpa":
        raise AtlasError(f"model {model.name}: its attention runs as {code}, which is given no mask in which edges could be blocked")
    sources = torch.arange(start + seq, device=model.input_device)
    return (sources <= sources[start:, None])[None, None]


def require_one_replacement(arm: Arm, n_prompt: int) -> None:
    """Raise AtlasError if two interventions of a resolved arm replace the content of the same cell, for a prompt of `n_prompt` tokens."""
    cells: dict[tuple[int | None, str, tuple[int, ...] | None], list[tuple[int, float, Intervention]]] = {}
    for change in arm:
        if change.op in REPLACING:
            cells.setdefault((change.layer, SAME_CELL.get(change.site, change.site), change.units), []).extend(spans(change, n_prompt))
    for found in cells.values():
        found.sort(key=lambda span: span[:2])
        for (_, end, before), (start, _, after) in pairwise(found):
            if start < end:
                raise AtlasError(f"{before.op} and {after.op} both replace {after.where} at position {start}; remove one of them")


def spans(change: Intervention, n_prompt: int) -> Iterator[tuple[int, float, Intervention]]:
    assert change.positions is not None
    for start, end in change.positions.index_ranges(n_prompt):
        yield start, float("inf") if end is None else end, change
