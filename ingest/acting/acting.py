"""Arms applied to every forward pass within a context, each to its rows of the batch.

Hooks change a copy, and run before those that record. Positions count from the start of the sequence, with a cache and without.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ingest.acting.edges import blocked_edges, with_edges
from ingest.acting.edits import AssignedArm, Edit, edits
from ingest.acting.places import Place, acting_place, module_at, state
from ingest.model.hooks import output_state
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.compose import require_one_replacement


class ArmHooks:
    """The forward pass that is running."""

    def __init__(self, model: Model, assigned: Sequence[AssignedArm], between: Callable[[], None]) -> None:
        self.model, self.assigned, self.between = model, assigned, between
        self.edits: dict[Place, list[Edit]] = {}
        self.watched: set[int] = set()
        """Layers whose resid_pre is needed later in the block."""
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
        """Rows in which a bit was changed, or an edge blocked. Rows that are equal may differ by rounding: products add up some rows in another order."""

    def resid_pre_at(self, layer: int, rows: slice, indices: list[int]) -> Tensor:
        return self.resid_pre[layer][rows][:, [index - self.start for index in indices]]

    def begin(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Where in the sequence this piece is. AtlasError for a cache that was not filled here, padding on the left, and rows that the batch has not."""
        given: Tensor = args[0] if args else kwargs["input_ids"]
        self.shape, cache, mask = (given.shape[0], given.shape[1]), kwargs.get("past_key_values"), kwargs.get("attention_mask")
        n_cached = 0 if cache is None else cache.get_seq_length()
        if n_cached and (cache is not self.cache or n_cached != self.n_read):
            raise AtlasError(f"the cache holds {n_cached} positions that were not read under these arms; read them again")
        if isinstance(mask, Tensor) and mask.dim() == 2 and not bool(mask[:, 0].all()):
            raise AtlasError("a sequence is padded on the left, and positions count from its first token; pad on the right, or read equal lengths")
        for one in self.assigned:
            if one.rows.stop > self.shape[0]:
                raise AtlasError(f"an arm acts on rows {one.rows.start} to {one.rows.stop - 1}; the batch has rows 0 to {self.shape[0] - 1}")
        self.start = n_cached
        self.fired.clear()

    def end(self, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        """AtlasError if a module that is acted on was not called."""
        self.cache, self.n_read = getattr(output, "past_key_values", None), self.start + self.shape[1]
        self.resid_pre.clear()
        expected = [*(place.path for place in self.edits), *(self.attention_path(layer) for layer in self.blocked)]
        if missing := [path for path in expected if path not in self.fired]:
            raise AtlasError(f"model {self.model.name}: nothing was changed at {', '.join(missing[:5])}: its code does not call the module acted on there")

    def attention_path(self, layer: int) -> str:
        return acting_place(self.model, ("attention", layer)).path

    def apply_edits(self, place: Place, x: Tensor) -> Tensor:
        """Apply a place's edits to a copy of x; return x itself where they change nothing of this piece."""
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
    """Let arms act on every forward pass within the context; what they are goes however it ends. What it gives tells which rows they changed.

    between: called before each change; what it raises ends the pass.
    Raises AtlasError for positions, prompts and vectors that are not there and for a cell that is replaced twice; and, after a forward pass, for a module
    that was not called.
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
