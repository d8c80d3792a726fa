"""What is kept of a live prompt says of which weights it is, and in which numbers they were used."""

from datetime import UTC, datetime

import pytest
import torch

from ingest.live.prompt import cut_prompt
from ingest.live.record import record_tables
from ingest.live.request import LiveRequest
from tests.ingest.tiny_models import tiny_model

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_trace_says_which_weights_it_is_of_and_not_which_were_asked_for(dtype: str) -> None:
    model = tiny_model("llama", dtype=getattr(torch, dtype))
    asked = LiveRequest("x", "0" * 64, seed=4)
    (row,) = record_tables(model, cut_prompt(model, "x", "never"), asked, "never", NOW)["experiment"].to_pylist()
    assert row["weights_sha256"] == model.weights_sha256 != asked.weights_sha256
    assert (row["kind"], row["dtype"], row["attention"], row["seed"], row["started_at"]) == ("live", dtype, "sdpa", 4, NOW)
