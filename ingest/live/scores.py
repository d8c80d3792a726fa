"""What the sub-updates that an arm changes add to logits in the base, by the path that goes to the output directly: a score, to hold against what the arm does.

Source: Geva et al. 2022, section 3 (sub-updates and their scores).
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.live.tracing import Traced
from ingest.model.models import Model
from schema.interventions.intervention import Arm

SITES = ("coefficient", "pre_activation")
"""Where a change is one of a coefficient."""


def scores(model: Model, traced: Traced, arm: Arm, indices: range, answers: Tensor) -> dict[str, pa.Array]:
    """Columns score and frozen_score at some indices of the prompt, for the answer there, [len(indices)]; null where the arm changes no coefficient.

    score is Σ m_i·(e_w·v_i) over the changed; frozen_score is by E·(gain ⊙ v), over what the final norm divides by in the base. Both are logits.
    """
    rows = slice(indices.start, indices.stop)
    written = torch.zeros_like(traced.last[0, rows])
    is_changed = np.zeros(len(indices), bool)
    for layer, neurons, mask in changed(model, arm, indices, traced.last.shape[1]):
        m = traced.states.coefficients[layer, rows][:, neurons].float() * traced.states.ffn_scale[layer, rows, None]
        written += (m * mask.to(m)) @ model.values(layer)[neurons]
        is_changed |= mask.any(1).numpy()
    readers = {"score": model.unembedding[answers], "frozen_score": model.logit_readers(answers) / model.final_scale(traced.last[0, rows])[:, None]}
    return {name: pa.array((written * reader).sum(1).cpu().numpy(), mask=~is_changed) for name, reader in readers.items()}


def changed(model: Model, arm: Arm, indices: range, n: int) -> Iterator[tuple[int, list[int], Tensor]]:
    """Each layer with the neurons that an arm (resolved) changes there, and at which indices, [len(indices), neurons] of booleans; n: tokens of the prompt."""
    cells: dict[int, dict[int, set[int]]] = {}
    for change in arm:
        if change.site in SITES and change.layer is not None and change.units and change.positions is not None:
            at = cells.setdefault(change.layer, {}).setdefault(change.units[0], set())
            for start, end in change.positions.within(n):
                at.update(range(max(start, indices.start), min(n if end is None else end, indices.stop)))
    for layer, of_layer in cells.items():
        mask = torch.zeros(len(indices), len(of_layer), dtype=torch.bool)
        for column, at in enumerate(of_layer.values()):
            mask[[index - indices.start for index in at], column] = True
        yield layer, list(of_layer), mask
