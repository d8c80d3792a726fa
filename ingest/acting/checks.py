"""What must hold of a model that is acted on, checked on its real weights.

Each row of a batch acts in one layer, so that all layers are checked in a few forward passes and no layer hears of another's change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ingest.acting.acting import acting
from ingest.acting.edits import Assigned
from ingest.acting.places import Place, module_at, state
from ingest.acting.runs import record_run
from ingest.model.checks import SLACK, TOLERANCE, probe_tokens, relative_error
from ingest.model.hooks import first, hooked
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Intervention, Source
from schema.interventions.positions import Positions

SELF = "a coefficient set to itself changes nothing"
PATCH = "all states of a layer taken from another run give that run"
MOVE = "a coefficient set to c moves the stream by (c - m)·v"
STAY = "and leaves other positions as they are"
VALUE = "a value added to the stream is its coefficient added to"
HEAD = "a head set to 0 takes away what it wrote"
CACHE = "a sequence read in two pieces is the sequence"

AT = 7
"""The position that is changed, of 12."""


@dataclass(frozen=True, eq=False)
class Seen:
    """One forward pass of a batch whose row r acts in layer r: of each layer its own row, [seq, width]; and the last states, [rows, seq, d_model]."""

    coefficient: list[Tensor]
    moved: list[Tensor]
    """What the down projection's output moves: resid_post, or, where a norm follows the FFN, that norm's input."""
    gathered: list[Tensor]
    written: list[Tensor]
    """Output of attention's output projection."""
    last: Tensor


def check_acting(model: Model) -> dict[str, float]:
    """Largest relative error over layers of what holds up to rounding: {"move", "value", "head", "cache"}.

    Where a norm follows the FFN, `move` is checked before it, since it computes its scale anew, and `value` is left out. Raises AtlasError that says what
    fails, where and by how much; what must hold to the bit has no tolerance.
    """
    with torch.inference_mode():
        return Checks(model).run()


def set_at(layer: int, unit: int, value: float, site: str = "coefficient", op: str = "set") -> Intervention:
    return Intervention(site, op, layer, (unit,), Positions(None, ((AT, AT + 1),)), value)


class Checks:
    def __init__(self, model: Model) -> None:
        self.model = model
        one = probe_tokens(model)
        self.other, self.tokens = one[1], one[0].expand(model.n_layers, -1).to(model.input_device)
        self.base = self.seen([])

    def run(self) -> dict[str, float]:
        model, base = self.model, self.base
        neurons = [int(model.values(layer).norm(dim=1).argmax()) for layer in range(model.n_layers)]
        own = [float(base.coefficient[layer][AT, neuron]) for layer, neuron in enumerate(neurons)]
        self.require_same(SELF, self.seen([set_at(*cell) for cell in zip(range(model.n_layers), neurons, own, strict=True)]).last, base.last)
        self.check_patch()
        values = [self.far_value(layer, neuron) for layer, neuron in enumerate(neurons)]
        found = {"move": self.check_move(neurons, values), "head": self.check_head(), "cache": self.check_cache(neurons, values)}
        if not model.is_ffn_output_normed:
            found["value"] = self.check_value(neurons, [value - m for value, m in zip(values, own, strict=True)])
        return found

    def seen(self, changes: Sequence[Intervention]) -> Seen:
        """The batch with one change a row, or none."""
        model, a, n = self.model, self.model.architecture, self.model.n_layers
        taken: dict[str, dict[int, Tensor]] = {name: {} for name in ("coefficient", "moved", "gathered", "written", "last")}

        def keep(name: str, layer: int, is_output: bool) -> Callable[..., None]:
            def hook(_module: object, args: tuple[Tensor, ...], output: object = None) -> None:
                x = state(first(output) if is_output else args[0], (n, self.tokens.shape[1]))
                taken[name][layer] = (x if name == "last" else x[layer]).to(model.device)

            return hook

        inputs, outputs = [], [(model.layer_path(n - 1), keep("last", n - 1, True))]
        for layer in range(n):
            path = model.layer_path(layer)
            inputs += [(f"{path}.{a.ffn.down}", keep("coefficient", layer, False)), (f"{path}.{a.attention.o}", keep("gathered", layer, False))]
            outputs.append((f"{path}.{a.attention.o}", keep("written", layer, True)))
            after = a.ffn.after_norm
            if after is None:
                outputs.append((path, keep("moved", layer, True)))
            else:
                inputs.append((f"{path}.{after}", keep("moved", layer, False)))
        assigned = [Assigned((change,), slice(row, row + 1), AT + 1, self.tokens.shape[1]) for row, change in enumerate(changes)]
        with acting(model, assigned), hooked(model, inputs, outputs, lambda *_: None):
            model.backbone(self.tokens)
        coefficient, moved, gathered, written = (list(taken[name].values()) for name in ("coefficient", "moved", "gathered", "written"))
        return Seen(coefficient, moved, gathered, written, taken["last"][n - 1])

    def direction(self, layer: int, neuron: int) -> Tensor:
        """What one unit of a coefficient adds to what `Seen.moved` holds, [d_model]."""
        model = self.model
        return model.rows(layer, model.architecture.ffn.down).T[neuron] if model.is_ffn_output_normed else model.values(layer)[neuron]

    def far_value(self, layer: int, neuron: int) -> float:
        """A coefficient, as the model's dtype has it, that moves the stream by about its own length, so that rounding does not hide the move."""
        length, unit = float(self.base.moved[layer][AT].norm()), float(self.direction(layer, neuron).norm())
        m = float(self.base.coefficient[layer][AT, neuron])
        # of a layer whose values are zero nothing moves
        far = m + min(max(1.0, length / unit if unit else 1.0), 1e4)
        return float(torch.tensor(far, dtype=self.model.dtype))

    def require_same(self, identity: str, got: Tensor, expected: Tensor) -> None:
        n_changed = int((got != expected).sum())
        if n_changed or bool(got.isnan().any()):
            by = float((got.double() - expected.double()).abs().max())
            raise AtlasError(f"{self.said(identity)}: {n_changed:,} of {got.numel():,} numbers change, by up to {by:.3g}")

    def require_small(self, identity: str, errors: dict[int, float]) -> float:
        tolerance = TOLERANCE[self.model.dtype] * (1 if self.model.dtype == torch.float32 else SLACK)
        for layer, error in errors.items():
            if not error <= tolerance:
                raise AtlasError(f"{self.said(identity)}: relative error {error:.3g} at layer {layer}, tolerance {tolerance:g}")
        return max(errors.values())

    def said(self, identity: str) -> str:
        return f"model {self.model.name} ({self.model.model_type}) cannot be acted on: it fails that {identity}"

    def check_patch(self) -> None:
        model = self.model
        site = ("resid_post", 0)
        donor, n = record_run(model, self.other, [site]), len(self.other)
        change = Intervention("resid_post", "patch", 0, None, Positions("all"), source=Source(1, None))
        last = ("resid_post", model.n_layers - 1)
        with acting(model, [Assigned((change,), slice(0, 1), n, n, {1: donor})]):
            got = record_run(model, self.tokens[0], [last])[last]
        self.require_same(PATCH, got, record_run(model, self.other, [last])[last])

    def check_move(self, neurons: Sequence[int], values: Sequence[float]) -> float:
        after, errors = self.seen([set_at(layer, neuron, value) for layer, (neuron, value) in enumerate(zip(neurons, values, strict=True))]), {}
        for layer, (neuron, value) in enumerate(zip(neurons, values, strict=True)):
            moved, before = after.moved[layer].double(), self.base.moved[layer].double()
            others = torch.arange(len(moved), device=moved.device) != AT
            self.require_same(f"{MOVE}, {STAY}", moved[others], before[others])
            m = float(self.base.coefficient[layer][AT, neuron])
            errors[layer] = relative_error((moved - before)[AT], (value - m) * self.direction(layer, neuron).double())
        return self.require_small(MOVE, errors)

    def check_value(self, neurons: Sequence[int], amounts: Sequence[float]) -> float:
        positions = Positions(None, ((AT, AT + 1),))
        added = [
            Intervention("resid_post", "add_value", layer, None, positions, a, of=(layer, n)) for layer, (n, a) in enumerate(zip(neurons, amounts, strict=True))
        ]
        by_stream = self.seen(added).moved
        by_coefficient = self.seen([set_at(layer, n, a, op="add") for layer, (n, a) in enumerate(zip(neurons, amounts, strict=True))]).moved
        return self.require_small(VALUE, {layer: relative_error(by_stream[layer], by_coefficient[layer]) for layer in range(self.model.n_layers)})

    def check_head(self) -> float:
        """Of each layer one head, in turn."""
        model, o = self.model, self.model.architecture.attention.o
        heads, errors = [layer % model.n_heads for layer in range(model.n_layers)], {}
        after = self.seen([Intervention("head", "zero", layer, (head,), Positions(None, ((AT, AT + 1),))) for layer, head in enumerate(heads)])
        for layer, head in enumerate(heads):
            own = slice(head * model.d_head, (head + 1) * model.d_head)
            lost = (self.base.written[layer] - after.written[layer])[AT].double()
            wrote = model.rows(layer, o)[:, own].double() @ self.base.gathered[layer][AT, own].double()
            # the difference of two sums is as exact as they are
            errors[layer] = float((lost - wrote).norm() / (self.base.written[layer][AT].double().norm() + wrote.norm()).clamp_min(1e-30))
        return self.require_small(HEAD, errors)

    def check_cache(self, neurons: Sequence[int], values: Sequence[float]) -> float:
        changes = [set_at(layer, neuron, value) for layer, (neuron, value) in enumerate(zip(neurons, values, strict=True))]
        n, whole = self.tokens.shape[1], self.seen(changes).last
        assigned = [Assigned((change,), slice(row, row + 1), AT, n) for row, change in enumerate(changes)]
        pieces: list[Tensor] = []
        last = Place(self.model.layer_path(self.model.n_layers - 1), True)
        taking = module_at(self.model, last).register_forward_hook(lambda _module, _args, output: pieces.append(first(output)))
        try:
            with acting(self.model, assigned):
                cache = self.model.backbone_module(input_ids=self.tokens[:, :AT], use_cache=True).past_key_values
                self.model.backbone_module(input_ids=self.tokens[:, AT:], past_key_values=cache, use_cache=True)
        finally:
            taking.remove()
        return self.require_small(CACHE, {self.model.n_layers - 1: relative_error(torch.cat(pieces, dim=1).to(whole.device), whole)})
