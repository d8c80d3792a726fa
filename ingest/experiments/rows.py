"""Rows that experiments of every kind have in common."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ingest.experiments.base import PartResult, Plan, Tables
from ingest.experiments.spec import Spec
from ingest.model.models import Model
from ingest.store.register import versions
from schema.interventions.resolve import arm_sha256

BASE = {"arm_id": 0, "name": "base", "role": "base", "interventions": "[]", "sha256": arm_sha256(())}


def of_prompt(rows: pa.Table, prompt_id: int) -> pa.Table:
    return rows.append_column(pa.field("prompt_id", pa.int32()), pa.repeat(pa.scalar(prompt_id, pa.int32()), rows.num_rows))


def experiment_row(model: Model, spec: Spec, plan: Plan) -> dict[str, Any]:
    """Build the row of an experiment that begins. Its column `settings` has the spec and the quantities measured in planning, which every run repeats."""
    return {
        "kind": spec.kind, "title": spec.title,
        "settings": json.dumps({**spec.settings_and_prompts(), "measured": dict(plan.measured)}),
        "versions": json.dumps(versions()),
        "seed": spec.seed, "device": str(model.device), "dtype": model.dtype_name, "attention": model.hf.config._attn_implementation,
        "weights_sha256": model.weights_sha256, "started_at": datetime.now(UTC), "status": "running",
    }  # fmt: skip


def first_tables(row: dict[str, Any], plan: Plan) -> Tables:
    """Build the tables that are saved before any part."""
    return {"arm": pa.Table.from_pylist([BASE]), **plan.tables, "experiment": pa.Table.from_pylist([row])}


def part_tables(part: int, name: str, found: PartResult) -> Tables:
    done = pa.table({"part": pa.array([part], pa.int32()), "name": [name], "note": pa.array([found.note], pa.string())})
    return {**found.tables, "part": done}
