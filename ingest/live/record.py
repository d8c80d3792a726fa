"""Rows of a live trace for an experiments file: `experiment`, `prompt` and `prompt_token`, and for the interventions `arm` and `arm_change`."""

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import torch

from ingest.acting.used_values import used_arm
from ingest.live.request import LiveRequest
from ingest.live.tracing import TracedPrompt
from ingest.model.models import Model
from ingest.store.register import versions
from ingest.text.sequences import CutDocument, bos_token
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


def record_tables(model: Model, prompt: CutDocument, asked: LiveRequest, bos: str, started_at: datetime) -> dict[str, pa.Table]:
    """Build the rows that record a live trace. The title is empty: who saves the trace gives it one. At each index the answer is the base's likeliest token."""
    (s,) = prompt.sequences
    n = len(s.token_ids)
    experiment = {
        "kind": "live", "title": "", "settings": json.dumps({"bos": bos, "n_new": asked.n_new, "seed": asked.seed}), "versions": json.dumps(versions()),
        "seed": asked.seed or 0, "device": str(model.device), "dtype": str(model.dtype).removeprefix("torch."),
        "attention": model.hf.config._attn_implementation, "weights_sha256": model.weights_sha256, "started_at": started_at,
        "finished_at": datetime.now(UTC), "status": "finished",
    }  # fmt: skip
    has_bos = int(s.token_ids[0]) == bos_token(model.tokenizer, bos)
    tokens = {
        "prompt_id": np.zeros(n, np.int32), "index": np.arange(n, dtype=np.int32), "token_id": s.token_ids, "char_start": s.char_starts,
        "char_end": s.char_ends, "role": ["other"] * (n - 1) + ["last"],
    }  # fmt: skip
    return {
        "experiment": pa.Table.from_pylist([experiment]),
        "prompt": pa.table({"prompt_id": [0], "text": [prompt.document.text], "n_tokens": [n], "has_bos": [has_bos]}),
        "prompt_token": pa.table(tokens),
    }


def arm_tables(traced: TracedPrompt, dtype: torch.dtype) -> dict[str, pa.Table]:
    """Build the rows of `arm` and `arm_change`; the base is arm 0.

    is_as_base: whether the run under the arm equals the base at every position, bit for bit. `arm` has the values as
    requested, `arm_change` as rounded to the dtype.
    """
    arms = [{"arm_id": 0, "name": "base", "role": "base", "interventions": "[]", "sha256": arm_sha256(()), "is_as_base": True}]
    changes = []
    for k, (arm, same) in enumerate(zip(traced.arms, traced.is_as_base, strict=True), start=1):
        arms.append({"arm_id": k, "name": f"arm {k}", "role": "treatment", "interventions": canonical_json(arm), "sha256": arm_sha256(arm), "is_as_base": same})
        changes += [{"arm_id": k, **row} for row in change_rows(used_arm(arm, dtype))]
    return {"arm": pa.Table.from_pylist(arms, ARM), "arm_change": pa.Table.from_pylist(changes, CHANGE)}
