"""Properties of a model that interventions rely on, checked on the model's real weights: three must hold to the bit, the other four up to rounding."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ingest.acting.acting import apply_arms
from ingest.acting.edits import AssignedArm
from ingest.acting.probe import AT, LayerBatch
from ingest.acting.runs import record_run
from ingest.model.agreement import relative_error
from ingest.model.checks import SLACK, TOLERANCE
from ingest.model.models import Model
from ingest.model.modules import MODEL_ERRORS
from schema.errors import AtlasError, first_line
from schema.interventions.intervention import Intervention, Source
from schema.interventions.positions import Positions

SELF = "setting a coefficient to its own value changes nothing"
PATCH = "replacing all states of a layer with another run's gives that run's last states"
MOVE = "setting a coefficient from m to c moves the stream by (c - m)·v"
STAY = f"{MOVE}, and leaves other positions of the layer as they are"
VALUE = "adding a multiple of a value to the stream equals adding that number to the value's coefficient"
HEAD = "setting a head to 0 removes what the head wrote"
CACHE = "a sequence read in two pieces gives the states of the sequence read at once"

THERE = Positions(None, ((AT, AT + 1),))
FARTHEST = 1e4
"""Largest change of a coefficient: half precision holds 65,504 at most."""


@dataclass(frozen=True)
class Cell:
    """A neuron of a layer, its coefficient at the position that is changed, and the coefficient that it is set to."""

    layer: int
    neuron: int
    own: float
    far: float

    def change(self, op: str, value: float) -> Intervention:
        return Intervention("coefficient", op, self.layer, (self.neuron,), THERE, value)


def check_acting(model: Model) -> dict[str, float]:
    """Check the properties. Returns, for "move", "head", "cache" and "value", which hold up to rounding, the largest relative error over layers; no "head"
    for a model whose heads cannot be read.

    If a norm follows the FFN, `move` is checked before the norm, which computes its scale anew, and `value` is left out. Raises AtlasError that says which
    property fails, where and by how much. Takes up to eight forward passes of 12 tokens in n_layers rows, and three of one row.
    """
    with torch.inference_mode():
        probe = LayerBatch(model)
        cells = [cell_of(probe, layer) for layer in range(model.n_layers)]
        require_same(model, SELF, probe.record_pass([cell.change("set", cell.own) for cell in cells]).last, probe.base.last)
        check_patch(probe)
        found = {"move": check_move(probe, cells), "cache": check_cache(probe, cells)}
        found |= {} if model.unread else {"head": check_head(probe)}
        return found if model.is_ffn_output_normed else found | {"value": check_value(probe, cells)}


def cell_of(probe: LayerBatch, layer: int) -> Cell:
    """Pick the neuron with the longest value, and a coefficient that moves the state by about the state's own length, so that rounding hides nothing."""
    neuron = int(probe.model.values(layer).norm(dim=1).argmax())
    length, unit = float(probe.base.moved[layer][AT].norm()), float(probe.direction(layer, neuron).norm())
    own = float(probe.base.coefficient[layer][AT, neuron])
    far = own + min(max(1.0, length / unit if unit else 1.0), FARTHEST)
    # as the model's dtype has it
    return Cell(layer, neuron, own, float(torch.tensor(far, dtype=probe.model.dtype)))


def check_patch(probe: LayerBatch) -> None:
    model, n, first, last = probe.model, len(probe.other), ("resid_post", 0), ("resid_post", probe.model.n_layers - 1)
    change = Intervention("resid_post", "patch", 0, positions=Positions("all"), source=Source(1, None))
    with apply_arms(model, [AssignedArm((change,), slice(0, 1), n, n, {1: record_run(model, probe.other, [first])})]):
        got = record_run(model, probe.tokens[0], [last])[last]
    require_same(model, PATCH, got, record_run(model, probe.other, [last])[last])


def check_move(probe: LayerBatch, cells: list[Cell]) -> float:
    after, errors = probe.record_pass([cell.change("set", cell.far) for cell in cells]), {}
    for cell, now, before in zip(cells, after.moved, probe.base.moved, strict=True):
        others = torch.arange(len(now), device=now.device) != AT
        require_same(probe.model, STAY, now[others], before[others], cell.layer)
        moved = (cell.far - cell.own) * probe.direction(cell.layer, cell.neuron).double()
        errors[cell.layer] = relative_error((now.double() - before.double())[AT], moved)
    return require_small(probe.model, MOVE, errors)


def check_value(probe: LayerBatch, cells: list[Cell]) -> float:
    by_coefficient = probe.record_pass([cell.change("add", cell.far - cell.own) for cell in cells]).moved
    values = [Intervention("resid_post", "add_value", c.layer, None, THERE, c.far - c.own, of=(c.layer, c.neuron)) for c in cells]
    return require_small(probe.model, VALUE, dict(enumerate(map(relative_error, probe.record_pass(values).moved, by_coefficient))))


def check_head(probe: LayerBatch) -> float:
    """Check one head of each layer, `layer % n_heads`. Errors are relative to the lengths of both terms: a difference is only as exact as its terms."""
    model = probe.model
    heads, errors = [layer % model.n_heads for layer in range(model.n_layers)], {}
    after = probe.record_pass([Intervention("head", "zero", layer, (head,), THERE) for layer, head in enumerate(heads)])
    for layer, head in enumerate(heads):
        own = slice(head * model.d_head, (head + 1) * model.d_head)
        before = probe.base.written[layer][AT].double()
        wrote = model.rows(layer, model.attention(layer).o)[:, own].double() @ probe.base.gathered[layer][AT, own].double()
        errors[layer] = float((before - after.written[layer][AT].double() - wrote).norm() / (before.norm() + wrote.norm()).clamp_min(1e-30))
    return require_small(model, HEAD, errors)


def check_cache(probe: LayerBatch, cells: list[Cell]) -> float:
    changes, model = [cell.change("set", cell.far) for cell in cells], probe.model
    try:
        in_pieces = probe.last_in_two_pieces(changes)
    except AtlasError:
        raise
    except MODEL_ERRORS as error:
        raise AtlasError(
            f"model {model.name} ({model.model_type}) cannot be acted on: reading a sequence in two pieces fails in transformers ({first_line(error)})"
        ) from error
    return require_small(model, CACHE, {model.n_layers - 1: relative_error(in_pieces, probe.record_pass(changes).last)})


def require_same(model: Model, what: str, got: Tensor, expected: Tensor, layer: int | None = None) -> None:
    n_changed = int((got != expected).sum())
    if n_changed:
        by, where = float((got.double() - expected.double()).abs().max()), "" if layer is None else f" at layer {layer}"
        raise AtlasError(f"{describe_failure(model, what)}: {n_changed:,} of {got.numel():,} numbers change{where}, by up to {by:.3g}")


def require_small(model: Model, what: str, errors: dict[int, float]) -> float:
    """Return the largest error. Raises AtlasError for an error that is above the tolerance or NaN."""
    tolerance = TOLERANCE[model.dtype] * (1 if model.dtype == torch.float32 else SLACK)
    for layer, error in errors.items():
        if not error <= tolerance:
            raise AtlasError(f"{describe_failure(model, what)}: relative error {error:.3g} at layer {layer}, tolerance {tolerance:g} in {model.dtype_name}")
    return max(errors.values())


def describe_failure(model: Model, what: str) -> str:
    return f"model {model.name} ({model.model_type}) cannot be acted on: it fails the check that {what}"
