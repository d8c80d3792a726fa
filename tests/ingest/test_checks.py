"""A model that is not what its entry says is refused with the numbers, before anything is stored."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from ingest.model.agreement import relative_error
from ingest.model.checks import check_attention, check_identities, parts_error, probe_tokens
from ingest.model.facts import ONE, constant_fact
from ingest.model.hooks import ATTENDED, RECORDED, record_layers
from ingest.model.models import Model
from schema.errors import AtlasError
from tests.ingest.tiny_models import tiny_model, with_facts

torch.set_num_threads(1)


def test_relative_error_is_per_position() -> None:
    # position 0: error 1 on length 100; position 1: error 0.5 on length 5
    expected = torch.tensor([[[100.0, 0.0], [3.0, 4.0]]])
    got = torch.tensor([[[100.0, 1.0], [3.0, 4.5]]])
    assert relative_error(got, expected) == pytest.approx(0.1)


def test_relative_error_of_two_zero_updates_is_zero_and_of_nan_is_nan() -> None:
    zero = torch.zeros(1, 1, 3)
    assert relative_error(zero, zero) == 0
    assert relative_error(zero + torch.nan, zero) != relative_error(zero + torch.nan, zero)


def test_the_report_has_one_error_for_each_identity() -> None:
    report = check_identities(tiny_model("granite"))
    assert set(report) == {"embedding", "stream", "residual", "norm", "keys", "ffn", "linear", "logits", "final_norm", "causal"}
    assert all(0 <= error < 1e-6 for error in report.values())


@pytest.mark.parametrize(
    ("model_type", "changes", "message"),
    [
        (
            "gpt2",
            {"attention__write": "ln_1"},
            r"tiny-gpt2 \(gpt2\): the identity resid_pre \+ attn_out = resid_mid.* fails at layer 0: relative error \d",
        ),
        ("gpt2", {"ffn__read": "ln_1"}, r"resid_mid \+ ffn_out = resid_post fails at layer 0"),
        ("gpt2", {"ffn__write": "ln_2"}, r"resid_mid \+ ffn_out = resid_post fails at layer 0"),
        ("gemma2", {"attention__write": "self_attn"}, r"resid_pre \+ attn_out"),
        ("gemma2", {"ffn__write": "mlp"}, r"resid_mid \+ ffn_out"),
        ("gemma", {"stream__embedding_multiplier": ONE}, r"token row \+ position row = first resid_pre fails at layer 0"),
        ("opt", {"stream__position_offset": 0}, r"token row \+ position row"),
        ("granite", {"stream__embedding_multiplier": constant_fact(1.0)}, r"token row \+ position row"),
        ("bloom", {"stream__embedding_norm": None}, r"token row \+ position row"),
        ("gpt2", {"stream__position_embedding": None}, r"token row \+ position row = first resid_pre"),
        ("gemma2", {"norm_gain_offset": 0.0}, r"norm of the state that the FFN reads = what its keys read fails at layer 0"),
        ("olmo2", {"norm_gain_offset": 1.0}, r"coefficients @ values \+ bias = ffn_out"),
        ("granite", {"stream__residual_multiplier": constant_fact(1.0)}, r"resid_pre \+ attn_out"),
        ("granite", {"stream__logit_divisor": constant_fact(1.0)}, r"lens\(last resid_post\) = logits fails at layer 1"),
        ("gemma2", {"stream__logit_softcap": constant_fact(None)}, r"lens\(last resid_post\) = logits"),
        ("gpt_neox", {"stream__is_parallel": constant_fact(False)}, r"resid_pre \+ attn_out"),
        ("bloom", {"attention__write": "self_attention"}, r"resid_pre \+ attn_out"),
        ("bloom", {"ffn__write": "mlp"}, r"resid_mid \+ ffn_out"),
        ("llama", {"ffn__gate": "mlp.up_proj", "ffn__up": "mlp.gate_proj"}, r"activation\(keys @ what they read\) = coefficients fails at layer 0"),
        ("llama", {"ffn__gate": None}, r"activation\(keys @"),
        ("llama", {"ffn__up": "mlp.gate_proj"}, r"activation\(keys @"),
        ("llama", {"ffn__activation": constant_fact("relu")}, r"activation\(keys @"),
        ("gpt2", {"ffn__activation": constant_fact("relu")}, r"activation\(keys @"),
        ("gpt2", {"ffn__activation": constant_fact("gelu")}, r"activation\(keys @"),
        ("gpt_neox", {"ffn__read": "input_layernorm"}, r"norm of the state that the FFN reads = what its keys read fails at layer 0"),
        ("gemma", {"norm_gain_offset": 0.0}, r"norm of the state"),
        ("phi", {"ffn__read": "mlp"}, r"norm of the state"),
        ("gptj", {"ffn__read": "mlp"}, r"norm of the state"),
    ],
)
def test_a_wrong_fact_fails_its_identity_with_numbers(model_type: str, changes: dict, message: str) -> None:
    with pytest.raises(AtlasError, match=message):
        check_identities(with_facts(tiny_model(model_type), **changes))


def test_a_part_that_is_missing_from_the_sum_of_logits_is_an_error() -> None:
    model = tiny_model("llama")
    tokens = probe_tokens(model)
    with torch.inference_mode(), record_layers(model, sites=(*RECORDED, *ATTENDED)) as records:
        model.backbone(tokens)
        assert parts_error(model, records, tokens) < 1e-5
        records[0] = replace(records[0], ffn_out=1.01 * records[0]["ffn_out"])
        assert parts_error(model, records, tokens) > 1e-3


def test_wrong_facts_fail_in_bfloat16_too() -> None:
    with pytest.raises(AtlasError, match="tolerance 0.03 in bfloat16"):
        check_identities(with_facts(tiny_model("gpt2", dtype=torch.bfloat16), attention__write="ln_1"))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused_by_name(bad: float) -> None:
    model = tiny_model("llama")
    model.layer_module(1, "mlp.up_proj").weight[3, 5] = bad
    with pytest.raises(AtlasError, match=r"parameter model\.layers\.1\.mlp\.up_proj\.weight holds 1 NaN or infinite weights of 384"):
        check_identities(model)


def test_activations_that_overflow_are_refused() -> None:
    model = tiny_model("gpt2", dtype=torch.float16)
    model.layer_module(0, "mlp.c_proj").weight.fill_(6e4)
    with pytest.raises(AtlasError, match="relative error nan"):
        check_identities(model)


def test_larger_inputs_are_no_larger_than_half_precision_holds() -> None:
    model = tiny_model("llama", dtype=torch.float16)
    # what it writes is some thousands, of which 64 times as much is infinite
    model.layer_module(1, "mlp.down_proj").weight.mul_(4000)
    assert check_identities(model)["linear"] < 5e-3


@pytest.mark.parametrize(("model_type", "name"), [("gpt2", "n_head"), ("gpt_neo", "num_heads")])
def test_heads_that_the_weights_cannot_be_divided_into_are_refused(model_type: str, name: str) -> None:
    with pytest.raises(AtlasError, match=rf"model tiny-{model_type}: its configuration says -2 attention heads, into which its weights cannot be divided"):
        tiny_model(model_type, **{name: -2})


@pytest.mark.parametrize(
    ("check", "model_type", "changes"),
    [(check_identities, "gemma2", {"sliding_window": 10**30}), (check_attention, "gemma2", {"query_pre_attn_scalar": -4})],
)
def test_a_configuration_with_which_nothing_runs_is_said(check: Callable[[Model], object], model_type: str, changes: dict) -> None:
    model = tiny_model(model_type)
    model.hf.config.update(changes)
    for module in model.hf.modules():
        if "sliding_window" in changes and getattr(module, "sliding_window", None):
            module.sliding_window = changes["sliding_window"]
    with pytest.raises(AtlasError, match=r"a forward pass fails \(.*\); is its config.json the right one"):
        check(model)
