"""What a model predicts with and without arms: the base and all arms in one batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ingest.acting.acting import acting
from ingest.acting.edits import Assigned
from ingest.acting.places import shape_of
from ingest.acting.runs import record_run, wanted_sites
from ingest.model.hooks import record_layers
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm
from schema.interventions.resolve import LookUp, resolve


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
    resolved = [resolve(arm, shape_of(model), look_up) for arm in arms]
    token_ids, n = prompts[prompt_id], len(prompts[prompt_id])
    runs = {}
    for other, sites in wanted_sites(resolved).items():
        if other is not None and other not in prompts:
            raise AtlasError(f"states of prompt {other} were asked for; there are prompts {', '.join(map(str, sorted(prompts)))}")
        runs[other] = record_run(model, prompts[prompt_id if other is None else other], sites)
    assigned = [Assigned(arm, slice(row, row + 1), n, n, runs, vectors) for row, arm in enumerate(resolved, start=1)]
    with acting(model, assigned) as acted, record_layers(model, sites=("resid_post",)) as records:
        model.backbone(token_ids.expand(1 + len(arms), -1))
    last = records[-1]["resid_post"].to(model.device)
    same = tuple(row not in acted.changed for row in range(1, len(last)))
    logits = model.lens(last[:, list(indices)])
    for row, is_same in enumerate(same, start=1):
        if is_same:
            logits[row] = logits[0]
    return Effect(tuple(resolved), logits, same)
