"""Arms of one prompt as rows of one batch, the base first."""

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
    """Resolve arms, and give the first row 1, and so on; row 0 is the base. n_more: positions that will be read after the prompt's.

    prompts: each [seq]; one is acted on, and the others are those that arms take states from. Raises AtlasError for whatever an arm asks for that there is
    not.
    """
    return resolved_rows(model, prompts, prompt_id, [resolve(arm, shape_of(model), look_up) for arm in arms], vectors, n_more)


def resolved_rows(
    model: Model, prompts: Mapping[int, Tensor], prompt_id: int, resolved: Sequence[Arm], vectors: Mapping[str, Tensor], n_more: int = 0
) -> list[AssignedArm]:
    """Give resolved arms their rows, as `as_rows` does once it has resolved them."""
    runs, n = {}, len(prompts[prompt_id])
    for other, sites in wanted_sites(resolved).items():
        if other is not None and other not in prompts:
            raise AtlasError(f"states of prompt {other} were asked for; there are prompts {', '.join(map(str, sorted(prompts)))}")
        runs[other] = record_run(model, prompts[prompt_id if other is None else other], sites)
    return [AssignedArm(arm, slice(row, row + 1), n, n + n_more, runs, vectors) for row, arm in enumerate(resolved, start=1)]
