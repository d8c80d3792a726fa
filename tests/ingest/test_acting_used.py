"""What is kept of an arm is the value that a model in half precision used, beside the one that was asked for."""

from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
import torch

from ingest.acting.acting import apply_arms
from ingest.acting.edits import AssignedArm
from ingest.acting.places import shape_of
from ingest.acting.suppression import PlannedArm
from ingest.experiments import suppressing
from ingest.live import record
from ingest.live.tracing import TracedPrompt
from ingest.model.hooks import record_layers
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm
from schema.interventions.parse import arm_of
from schema.interventions.resolve import resolve
from tests.ingest.tiny_models import tiny_model, token_batch

torch.set_num_threads(1)

PROMPT = token_batch(1, 5)
NONE: Any = None


def coefficient(op: str, value: float) -> dict:
    return {"site": "coefficient", "layer": 0, "units": [2], "op": op, "value": value, "positions": [3]}


def resolved(model: Model, *items: dict) -> Arm:
    return resolve(arm_of(list(items)), shape_of(model), lambda *_: None)


def coefficient_under(model: Model, arm: Arm) -> float:
    with apply_arms(model, [AssignedArm(arm, slice(0, 1), 5, 5)]), record_layers(model) as records:
        model.backbone(PROMPT)
    return float(records[0]["coefficient"][0, 3, 2])


@pytest.mark.parametrize(("dtype", "used"), [(torch.float32, 1.001), (torch.bfloat16, 1.0), (torch.float16, 1 + 2**-10)])
def test_the_value_that_is_kept_is_the_one_that_was_put_in(dtype: torch.dtype, used: float) -> None:
    model = tiny_model("llama", dtype=dtype)
    noise = {"site": "resid_post", "layer": 1, "op": "noise", "value": 1.001, "seed": 0, "positions": [3]}
    arm = resolved(model, coefficient("set", 1.001), noise)
    assert coefficient_under(model, arm) == pytest.approx(used, rel=1e-7)
    kept = record.arm_tables(TracedPrompt((arm,), (False,), NONE, NONE), dtype)
    # noise is drawn and multiplied in float32
    assert kept["arm_change"]["value"].to_pylist() == pytest.approx([used, 1.001], rel=1e-7)
    assert '"value":1.001' in kept["arm"]["interventions"][1].as_py()

    con = duckdb.connect()
    con.execute("CREATE TABLE neuron AS SELECT 0 AS layer, 2 AS neuron, 3::DOUBLE AS value_norm")
    world: Any = SimpleNamespace(model=model, con=con)
    tables = suppressing.arm_tables(world, [PlannedArm("one", "treatment", arm[:1])])
    (row,) = tables["arm_change"].to_pylist()
    assert (row["value"], row["sub_update_norm"]) == pytest.approx((used, 3 * used), rel=1e-7)


@pytest.mark.parametrize("op", ["scale", "add"])
def test_a_value_that_is_rounded_away_is_kept_as_what_changed_nothing(op: str) -> None:
    model = tiny_model("llama", dtype=torch.float16)
    value = {"scale": 1.0001, "add": 1e-9}[op]
    arm = resolved(model, coefficient(op, value))
    assert coefficient_under(model, arm) == coefficient_under(model, ())
    (row,) = record.arm_tables(TracedPrompt((arm,), (True,), NONE, NONE), model.dtype)["arm_change"].to_pylist()
    assert row["value"] == {"scale": 1, "add": 0}[op]


def test_a_value_that_the_dtype_does_not_hold_is_refused() -> None:
    model = tiny_model("llama", dtype=torch.float16)
    with pytest.raises(AtlasError, match="set of coefficient 2 of layer 0: 100000 was asked for; in float16 numbers go up to 65504"):
        coefficient_under(model, resolved(model, coefficient("set", 1e5)))
