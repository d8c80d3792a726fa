"""A batch whose row r is changed in layer r alone, so that one forward pass tests all layers and no layer sees another's change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ingest.acting.acting import apply_arms
from ingest.acting.edits import AssignedArm
from ingest.acting.places import state
from ingest.model.checks import probe_tokens, translate_forward_errors
from ingest.model.facts import Attention
from ingest.model.hooks import Hook, output_state, register_hooks
from ingest.model.models import Model
from schema.interventions.intervention import Intervention

AT = 7
"""Index of the position that is changed, out of 12."""


@dataclass(frozen=True, eq=False)
class RecordedPass:
    """Tensors that one forward pass records: of layer r, those of row r alone, [seq, width]; and the last states of all rows."""

    coefficient: list[Tensor]
    moved: list[Tensor]
    """The state to which the FFN's values are added: resid_post, or the norm's input if a norm follows the FFN."""
    gathered: list[Tensor]
    written: list[Tensor]
    """Output of attention, before any norm that follows."""
    last: Tensor
    """[rows, seq, d_model]"""


class LayerBatch:
    """The tokens of one sequence, repeated in one row per layer of the model, and the tokens of another sequence (`other`)."""

    def __init__(self, model: Model) -> None:
        one, self.other = probe_tokens(model)
        self.model, self.tokens = model, one.expand(model.n_layers, -1).to(model.input_device)
        self.base = self.record_pass([])

    def assign_rows(self, changes: Sequence[Intervention]) -> list[AssignedArm]:
        """Assign change r, which acts in layer r, to row r."""
        return [AssignedArm((change,), slice(row, row + 1), AT, self.tokens.shape[1]) for row, change in enumerate(changes)]

    def record_pass(self, changes: Sequence[Intervention]) -> RecordedPass:
        model, n = self.model, self.model.n_layers
        taken: dict[str, list[Tensor]] = {name: [] for name in ("coefficient", "moved", "gathered", "written", "last")}

        def keep(name: str, layer: int, x: Tensor) -> None:
            x = state(x, (n, self.tokens.shape[1])).to(model.device)
            taken[name].append(x if name == "last" else x[layer])

        def input_hook(name: str, layer: int) -> Hook:
            return lambda _module, args: keep(name, layer, args[0])

        def output_hook(name: str, layer: int) -> Hook:
            return lambda _module, _args, output: keep(name, layer, output_state(output))

        paths = [model.layer_path(layer) for layer in range(n)]
        inputs: list[tuple[str, Hook]] = []
        outputs: list[tuple[str, Hook]] = [(paths[-1], output_hook("last", n - 1))]
        for layer, path in enumerate(paths):
            mixer, ffn = model.mixer(layer), model.ffn(layer)
            inputs.append((f"{path}.{ffn.down}", input_hook("coefficient", layer)))
            if isinstance(mixer, Attention):
                inputs.append((f"{path}.{mixer.o}", input_hook("gathered", layer)))
            if mixer.after_norm is None:
                outputs.append((f"{path}.{mixer.write}", output_hook("written", layer)))
            else:
                inputs.append((f"{path}.{mixer.after_norm}", input_hook("written", layer)))
            if ffn.after_norm is None:
                outputs.append((path, output_hook("moved", layer)))
            else:
                inputs.append((f"{path}.{ffn.after_norm}", input_hook("moved", layer)))
        with apply_arms(model, self.assign_rows(changes)), register_hooks(model, inputs, outputs, lambda *_: None), translate_forward_errors(model):
            model.backbone(self.tokens)
        return RecordedPass(taken["coefficient"], taken["moved"], taken["gathered"], taken["written"], taken["last"][0])

    def last_in_two_pieces(self, changes: Sequence[Intervention]) -> Tensor:
        """Record the last states, [rows, seq, d_model], of a sequence read in two forward passes: up to AT, and from AT on with the first pass's cache."""
        model, pieces = self.model, list[Tensor]()

        def keep(_module: object, _args: object, output: Any) -> None:
            pieces.append(output_state(output))

        with apply_arms(model, self.assign_rows(changes)), register_hooks(model, [], [(model.layer_path(model.n_layers - 1), keep)], lambda *_: None):
            cache = model.backbone_module(input_ids=self.tokens[:, :AT], use_cache=True).past_key_values
            model.backbone_module(input_ids=self.tokens[:, AT:], past_key_values=cache, use_cache=True)
        return torch.cat(pieces, dim=1).to(model.device)

    def direction(self, layer: int, neuron: int) -> Tensor:
        """Read the vector that one unit of a coefficient adds to the state in `RecordedPass.moved`, [d_model] float32."""
        model = self.model
        return model.rows(layer, model.ffn(layer).down)[:, neuron] if model.is_ffn_output_normed else model.values(layer)[neuron]
