"""Logits as sums, and rows of attention, against brute force in float64 with plain hooks, in every family."""

import numpy as np
import polars as pl
import pytest
import torch

from ingest.model.architectures import ARCHITECTURES
from ingest.model.models import Model
from ingest.model.parts import mean_reader
from ingest.recorders.attribution_recorder import AttributionRecorder
from ingest.recorders.reading import read_batch
from ingest.text.sequences import NO_NEXT_TOKEN, Sequence
from tests.ingest.attention_oracle import ATTENTION, OUTPUT, child, eager_model
from tests.ingest.parts_checks import Checked, check_all, close
from tests.ingest.parts_oracle import Oracle
from tests.ingest.tiny_models import marked, token_batch

torch.set_num_threads(1)

LENGTHS = (11, 1, 13)
SAMPLE = (0, 5, 10, 100, 200, 203, 212)
"""First positions, last ones, those between, and one of a sequence of one token; a sequence begins at each hundred."""

# a cap so low that float32 cannot tell capped logits apart has no single prediction
VARIANTS = [(model_type, {"final_logit_softcapping": 20.0} if model_type == "gemma2" else {}) for model_type in ARCHITECTURES] + [
    ("gpt2", {"n_layer": 1, "n_head": 1}),
    ("llama", {"num_hidden_layers": 1, "num_key_value_heads": 1}),
    ("mistral", {"num_key_value_heads": 4, "sliding_window": 3}),
    ("gpt_neox", {"use_parallel_residual": True, "attention_bias": False}),
    ("opt", {"enable_bias": False, "layer_norm_elementwise_affine": False}),
    ("gemma2", {"final_logit_softcapping": None}),
]
every_variant = pytest.mark.parametrize(("model_type", "changes"), marked(VARIANTS), ids=[f"{m}{'-' + '-'.join(c) if c else ''}" for m, c in VARIANTS])


def sequences() -> tuple[Sequence, ...]:
    found = []
    for i, n in enumerate(LENGTHS):
        tokens = token_batch(1, n + 1, seed=i)[0].numpy().astype(np.int32)
        # the last sequence goes on, the others end with their document
        following = np.append(tokens[1:n], tokens[n] if i == 2 else NO_NEXT_TOKEN).astype(np.int32)
        nowhere = np.zeros(n, np.int32)
        found.append(Sequence(i, 0, 100 * i, tokens[:n], following, nowhere, nowhere))
    return tuple(found)


def recorded(model: Model, sample: tuple[int, ...] = SAMPLE, batch: tuple[Sequence, ...] = sequences()) -> dict[str, pl.DataFrame]:
    recorder = AttributionRecorder(model, 3, mean_reader(model))
    list(read_batch(model, [(recorder, np.array(sample))], batch))
    return {name: pl.DataFrame(pl.from_arrow(table)) for name, table in recorder.tables(lambda _: None).items()}


def checked(model: Model) -> Checked:
    oracle = Oracle(model)
    taken = [oracle.take(torch.from_numpy(s.token_ids).long()) for s in sequences()]
    places = {p: (taken[p // 100], p % 100, int(sequences()[p // 100].next_token_ids[p % 100])) for p in SAMPLE}
    return Checked(oracle, recorded(model), places, 3)


@pytest.mark.first_cases(4)
@every_variant
def test_parts_neurons_and_sources_are_those_of_a_brute_force_in_float64(model_type: str, changes: dict) -> None:
    check_all(checked(eager_model(model_type, **changes)))


def test_what_is_recorded_of_a_position_does_not_depend_on_the_others_of_its_batch() -> None:
    model = eager_model("mistral")
    whole, alone = recorded(model), recorded(model, (205,), sequences()[2:])
    assert recorded(model, (205,))["attention"]["source_index"].equals(alone["attention"]["source_index"])
    with_others = recorded(model, (203, 205))["contribution"].filter(pl.col("position_id") == 205)
    close(with_others["final_logit"], alone["contribution"]["final_logit"], 10.0)
    assert set(whole["attribution"]["position_id"]) == set(SAMPLE)


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox", "gemma2"])
def test_an_ffn_of_zeros_adds_and_erases_nothing(model_type: str) -> None:
    model = eager_model(model_type)
    down = model.architecture.ffn.down
    for layer in range(model.n_layers):
        for parameter in model.layer_module(layer, down).parameters():
            parameter.zero_()
    found = recorded(model)
    ffns = found["contribution"].filter(pl.col("kind").is_in(["ffn", "ffn_bias"]))
    assert len(ffns) >= len(SAMPLE) * model.n_layers
    for column in ("final_logit", "mean_logit", "norm", "erased"):
        assert ffns[column].abs().max() == 0
    assert found["attribution"].select(pl.col("neurons_up", "neurons_down").abs().max()).row(0) == (0, 0)
    assert found["attribution"]["residual"].abs().max() < 1e-4


def test_a_stream_of_zeros_is_not_erased() -> None:
    model = eager_model("llama", num_hidden_layers=1)
    model.input_embedding.zero_()
    erased = recorded(model)["contribution"].filter(pl.col("kind") == "head")["erased"]
    assert erased.is_finite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("model_type", ["llama", "gemma2", "olmo2"])
def test_heads_of_a_model_in_half_precision_are_multiplied_in_float32(model_type: str, dtype: torch.dtype) -> None:
    """Against float64 products of what the projection was given; in half precision they would be a hundred times further off."""
    model, batch, gathered = eager_model(model_type), sequences()[2:], {}
    model.hf.to(dtype)
    oracle = Oracle(model)
    blocks = next(module for module in model.hf.modules() if isinstance(module, torch.nn.ModuleList))
    hooks = [
        child(child(block, ATTENTION), OUTPUT).register_forward_pre_hook(lambda _, args, layer=layer: gathered.__setitem__(layer, args[0][0, 12].double()))
        for layer, block in enumerate(blocks)
    ]
    found = recorded(model, (212,), batch)["contribution"].filter(pl.col("kind") == "head")
    for hook in hooks:
        hook.remove()
    assert gathered.keys() == set(range(model.n_layers))
    for layer, x in gathered.items():
        o = oracle.output(layer)
        after = oracle.after(layer, "post_attention_layernorm", model.layer_module(layer, model.architecture.attention.o)(x.to(dtype)).double())
        parts = torch.block_diag(*x.unflatten(0, (model.n_heads, -1))) @ o.weight.T * after
        close(found.filter(pl.col("layer") == layer)["norm"], parts.norm(dim=-1), tolerance=1e-5)


def test_what_half_precision_leaves_over_is_stored_and_is_not_hidden_in_a_part() -> None:
    model = eager_model("llama")
    model.hf.to(torch.bfloat16)
    found = recorded(model)
    row = found["attribution"].row(0, named=True)
    parts = found["contribution"].filter(pl.col("position_id") == row["position_id"])["final_logit"].cast(pl.Float64).sum()
    assert abs(row["residual"]) > 1e-4
    close(row["logit"] - row["residual"], parts, 10.0)
