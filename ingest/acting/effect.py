"""What a model predicts with and without arms: the base and all arms in one batch."""

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
    """arms: resolved. logits: [1 + arms, indices, d_vocab] float32, the base first. is_as_base: of each arm, whether it changed no bit of any position."""

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
    """Act on one of the prompts, each [seq]; the others are those that arms take states from. indices: of the predictions that are wanted.

    Raises AtlasError for whatever an arm asks for that there is not.
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
