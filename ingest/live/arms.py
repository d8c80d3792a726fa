"""What was done to a prompt: rows of `arm` and `arm_change`, as in a file of experiments."""

import pyarrow as pa
import torch

from ingest.acting.used import used_arm
from ingest.live.tracing import TracedPrompt
from schema.interventions.changes import change_rows
from schema.interventions.resolve import arm_sha256, canonical_json

ARM = pa.schema(
    [("arm_id", pa.int32()), ("name", pa.string()), ("role", pa.string()), ("interventions", pa.string()), ("sha256", pa.string()), ("is_as_base", pa.bool_())]
)
CHANGE = pa.schema(
    [
        ("arm_id", pa.int32()), ("rank", pa.int32()), ("site", pa.string()), ("layer", pa.int16()), ("unit", pa.int32()), ("op", pa.string()),
        ("value", pa.float32()), ("strength_kind", pa.string()), ("strength", pa.float32()), ("positions", pa.string()), ("is_first_skipped", pa.bool_()),
    ]
)  # fmt: skip


def arm_tables(traced: TracedPrompt, dtype: torch.dtype) -> dict[str, pa.Table]:
    """Build the rows of `arm` and `arm_change`; the base is arm 0.

    is_as_base: the arm changed no bit of any position. `arm` has values as they were asked for, `arm_change` as the dtype has them.
    """
    arms = [{"arm_id": 0, "name": "base", "role": "base", "interventions": "[]", "sha256": arm_sha256(()), "is_as_base": True}]
    changes = []
    for k, (arm, same) in enumerate(zip(traced.arms, traced.is_as_base, strict=True), start=1):
        arms.append({"arm_id": k, "name": f"arm {k}", "role": "treatment", "interventions": canonical_json(arm), "sha256": arm_sha256(arm), "is_as_base": same})
        changes += [{"arm_id": k, **row} for row in change_rows(used_arm(arm, dtype))]
    return {"arm": pa.Table.from_pylist(arms, ARM), "arm_change": pa.Table.from_pylist(changes, CHANGE)}
