"""A model's predictions with and without arms; the base and all arms are rows of one batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ingest.acting.acting import apply_arms
from ingest.acting.rows import as_rows
from ingest.model.hooks import record_layers
from ingest.model.models import Model
from schema.interventions.intervention import Arm
from schema.interventions.resolve import LookUp


@dataclass(frozen=True, eq=False)
class Effect:
    """Predictions under resolved arms. logits: [1 + arms, indices, d_vocab] float32, the base first. is_as_base: whether each arm left every bit unchanged."""

    arms: tuple[Arm, ...]
    logits: Tensor
    is_as_base: tuple[bool, ...]


def effect(
    model: Model,
    prompts: Mapping[int, Tensor],
    prompt_id: int,
    arms: Sequence[Arm],
    indices: Sequence[int],
    look_up: LookUp,
    vectors: Mapping[str, Tensor],
) -> Effect:
    """Compute the predictions for one prompt under each arm.

    prompts: each [seq]; the arms act on the prompt `prompt_id` and may take states from any prompt. indices: the positions whose predictions to return.
    Raises AtlasError if an arm asks for something that does not exist.
    """
    assigned = as_rows(model, prompts, prompt_id, arms, look_up, vectors)
    with apply_arms(model, assigned) as acted, record_layers(model, sites=("resid_post",)) as records:
        model.backbone(prompts[prompt_id].expand(1 + len(arms), -1))
    last = records[-1]["resid_post"].to(model.device)
    same = tuple(row not in acted.changed for row in range(1, len(last)))
    logits = model.lens(last[:, list(indices)])
    for row, is_same in enumerate(same, start=1):
        if is_same:
            logits[row] = logits[0]
    return Effect(tuple(one.arm for one in assigned), logits, same)
