"""What a layer reads is most often what the layer before it left, and then the logit lens of both is one; where it is not, each has its own."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from ingest.recorders.traces import TracedStates, TraceSettings, join_states, trace_tables
from ingest.text.sequences import Sequence
from schema.terms import SITES
from tests.ingest.reading import trace_batch
from tests.ingest.tiny_models import tiny_model

MODEL = tiny_model("gpt2")
SETTINGS = TraceSettings(SITES, 5, 0)


def traced(states: TracedStates) -> dict[str, pa.Table]:
    return trace_tables(MODEL, states, np.zeros((2, MODEL.d_ffn), np.int64), 0, SETTINGS, lambda _: None)


def probabilities(states: TracedStates, layer: int, site: str) -> np.ndarray:
    """By the model's own modules."""
    logits = MODEL.hf.lm_head(MODEL.hf.transformer.ln_f(states.sites[site][layer]))
    return torch.softmax(logits, -1).topk(10).values.numpy()


def lens(tables: dict[str, pa.Table], layer: int, site: str) -> list[np.ndarray]:
    """Every column but where it is."""
    here = [
        (table["layer"].to_numpy() == layer) & (np.array(table["site"].to_pylist()) == site) for table in (tables["logit_lens"], tables["logit_lens_token"])
    ]
    kept = [tables[name].filter(pa.array(mask)).drop_columns(["layer", "site"]) for name, mask in zip(("logit_lens", "logit_lens_token"), here, strict=True)]
    return [np.array(column.to_pylist()) for table in kept for column in table.columns]


@pytest.fixture
def states() -> TracedStates:
    tokens = np.random.default_rng(0).integers(1, 250, 9).astype(np.int32)
    return join_states(trace_batch(MODEL, (Sequence(0, 0, 0, tokens, tokens, tokens, tokens),), np.array([2, 5, 8])))


@torch.inference_mode()
def test_the_lens_of_what_is_handed_on_is_read_once(states: TracedStates, monkeypatch: pytest.MonkeyPatch) -> None:
    n_read = []
    whole = type(MODEL).lens
    monkeypatch.setattr(type(MODEL), "lens", lambda self, z, out=None: n_read.append(len(z)) or whole(self, z, out))
    tables = traced(states)
    # the last layer's output, five sites of the first layer, four of the second: three positions each
    assert n_read == [3, 15, 12]
    for one, other in zip(lens(tables, 1, "resid_pre"), lens(tables, 0, "resid_post"), strict=True):
        assert (one == other).all()
    np.testing.assert_allclose(lens(tables, 1, "resid_pre")[-1].reshape(3, 10), probabilities(states, 1, "resid_pre"), rtol=1e-5)
    assert [tables["logit_lens"]["site"].to_pylist()[i] for i in range(0, 30, 3)] == [*SITES, *SITES]


@torch.inference_mode()
def test_what_a_layer_changes_before_it_reads_has_a_lens_of_its_own(states: TracedStates) -> None:
    changed = replace(states, sites=states.sites | {"resid_pre": states.sites["resid_pre"] * torch.tensor([1.0, -1.0])[:, None, None]})
    tables = traced(changed)
    assert any((one != other).any() for one, other in zip(lens(tables, 1, "resid_pre"), lens(tables, 0, "resid_post"), strict=True))
    np.testing.assert_allclose(lens(tables, 1, "resid_pre")[-1].reshape(3, 10), probabilities(changed, 1, "resid_pre"), rtol=1e-5)
