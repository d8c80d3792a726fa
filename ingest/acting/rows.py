"""Assignment of arms that act on one prompt to the rows of one batch; row 0 is the base."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from ingest.acting.edits import AssignedArm
from ingest.acting.places import shape_of
from ingest.acting.runs import record_run, wanted_sites
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm
from schema.interventions.resolve import LookUp, resolve


def as_rows(
    model: Model,
    prompts: Mapping[int, Tensor],
    prompt_id: int,
    arms: Sequence[Arm],
    look_up: LookUp,
    vectors: Mapping[str, Tensor],
    n_more: int = 0,
) -> list[AssignedArm]:
    """Resolve arms, and assign them to rows 1, 2, … of a batch; row 0 is the base.

    prompts: each [seq]; arms act on the prompt `prompt_id`, and may take states from any prompt. n_more: number of positions that the model will read after
    the prompt. Raises AtlasError if an arm asks for something that does not exist.
    """
    return resolved_rows(model, prompts, prompt_id, [resolve(arm, shape_of(model), look_up) for arm in arms], vectors, n_more)


def resolved_rows(
    model: Model, prompts: Mapping[int, Tensor], prompt_id: int, resolved: Sequence[Arm], vectors: Mapping[str, Tensor], n_more: int = 0
) -> list[AssignedArm]:
    """Assign arms that are already resolved to rows, as `as_rows` does."""
    runs, n = {}, len(prompts[prompt_id])
    for other, sites in wanted_sites(resolved).items():
        if other is not None and other not in prompts:
            raise AtlasError(f"states of prompt {other} were asked for; there are prompts {', '.join(map(str, sorted(prompts)))}")
        runs[other] = record_run(model, prompts[prompt_id if other is None else other], sites)
    return [AssignedArm(arm, slice(row, row + 1), n, n + n_more, runs, vectors) for row, arm in enumerate(resolved, start=1)]
