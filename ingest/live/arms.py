"""What was done to a prompt: rows of `arm` and `arm_change`."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ingest.live.tracing import Traced
from schema.interventions.intervention import Intervention
from schema.interventions.resolve import arm_sha256, canonical_json

ARM = pa.schema(
    [("arm_id", pa.int32()), ("name", pa.string()), ("role", pa.string()), ("interventions", pa.string()), ("sha256", pa.string()), ("is_as_base", pa.bool_())]
)
CHANGE = pa.schema(
    [
        ("arm_id", pa.int32()), ("rank", pa.int32()), ("site", pa.string()), ("layer", pa.int16()), ("unit", pa.int32()), ("op", pa.string()),
        ("value", pa.float32()), ("positions", pa.string()),
    ]
)  # fmt: skip


def arm_tables(traced: Traced) -> dict[str, pa.Table]:
    """The base is arm 0. is_as_base: the arm changed no bit of any position."""
    arms = [{"arm_id": 0, "name": "base", "role": "base", "interventions": "[]", "sha256": arm_sha256(()), "is_as_base": True}]
    for k, (arm, same) in enumerate(zip(traced.arms, traced.is_as_base, strict=True), start=1):
        said = canonical_json(arm)
        arms.append({"arm_id": k, "name": f"arm {k}", "role": "treatment", "interventions": said, "sha256": arm_sha256(arm), "is_as_base": same})
    changes = [row for k, arm in enumerate(traced.arms, start=1) for row in change_rows(k, arm)]
    return {"arm": pa.Table.from_pylist(arms, ARM), "arm_change": pa.Table.from_pylist(changes, CHANGE)}


def change_rows(arm_id: int, arm: Any) -> Iterator[dict[str, Any]]:
    for rank, change in enumerate(arm, start=1):
        yield {
            "arm_id": arm_id, "rank": rank, "site": change.site, "layer": change.layer, "unit": unit_of(change), "op": change.op, "value": change.value,
            "positions": None if change.positions is None else json.dumps(change.positions.as_json()),
        }  # fmt: skip


def unit_of(change: Intervention) -> int | None:
    return None if not change.units else change.units[0]
