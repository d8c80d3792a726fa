"""Hooks see every forward pass, copy nothing, and leave nothing behind."""

import weakref

import pytest
import torch

from ingest.model.hooks import RECORDED, coefficients, listen, record_layers
from ingest.model.models import Model
from ingest.model.modules import ModuleMissing, find
from schema.errors import AtlasError
from tests.ingest.tiny_models import FAMILIES, tiny_model, token_batch, with_facts

torch.set_num_threads(1)


def n_hooks(model: Model) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules())


@pytest.mark.parametrize("model_type", FAMILIES)
def test_capture_hands_out_every_layer_in_order_and_the_same_numbers_as_record(model_type: str) -> None:
    model, token_ids = tiny_model(model_type), token_batch(3, 7)
    with record_layers(model) as recording:
        model.backbone(token_ids)
    seen = []
    with listen(model, [coefficients(lambda layer, m: seen.append((layer, m)))]):
        model.backbone(token_ids)
    assert [layer for layer, _ in seen] == [0, 1]
    for layer, m in seen:
        assert tuple(m.shape) == (3, 7, model.d_ffn)
        assert torch.equal(m, recording[layer]["coefficient"])


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "opt"])
def test_capture_copies_nothing(model_type: str) -> None:
    model = tiny_model(model_type)
    inputs, captured = [], []
    down = model.layer_module(1, model.architecture.ffn.down)
    handle = down.register_forward_pre_hook(lambda _, args: inputs.append(args[0].data_ptr()))
    with listen(model, [coefficients(lambda layer, m: captured.append(m.data_ptr()) if layer == 1 else None)]):
        model.backbone(token_batch(1, 4))
    handle.remove()
    assert captured == inputs


def test_the_callback_is_called_during_the_forward_pass_not_after_it() -> None:
    model, order = tiny_model("llama"), []
    handle = model.layer_module(1, "self_attn").register_forward_hook(lambda *_: order.append("attention of layer 1"))
    with listen(model, [coefficients(lambda layer, _: order.append(layer))]):
        model.backbone(token_batch(1, 4))
    handle.remove()
    assert order == [0, "attention of layer 1", 1]


def test_capture_keeps_no_layer_alive_after_its_callback() -> None:
    model, seen = tiny_model("gpt2"), []

    def look(_: int, m: torch.Tensor) -> None:
        assert all(earlier() is None for earlier in seen)
        seen.append(weakref.ref(m))

    with listen(model, [coefficients(look)]):
        model.backbone(token_batch(1, 4))
    assert len(seen) == 2


@pytest.mark.parametrize("context", [lambda model: listen(model, [coefficients(lambda *_: None)]), record_layers])
def test_hooks_are_gone_after_the_context_even_after_an_error(context) -> None:
    model = tiny_model("gpt2")
    before = n_hooks(model)
    with context(model):
        assert n_hooks(model) > before
    assert n_hooks(model) == before
    with pytest.raises(ZeroDivisionError), context(model):
        raise ZeroDivisionError
    assert n_hooks(model) == before


def test_an_error_in_the_callback_reaches_the_caller_and_leaves_no_hook() -> None:
    model = tiny_model("gpt2")

    def fail(layer: int, _: torch.Tensor) -> None:
        raise ZeroDivisionError(layer)

    with pytest.raises(ZeroDivisionError, match="0"), listen(model, [coefficients(fail)]):
        model.backbone(token_batch(1, 4))
    assert n_hooks(model) == 0


@pytest.mark.parametrize("entry", ["attention__write", "ffn__write", "ffn__read", "ffn__down"])
def test_a_path_that_matches_nothing_names_itself_and_what_is_there_and_registers_no_hook(entry: str) -> None:
    model = with_facts(tiny_model("gpt2"), **{entry: "mlp.c_projj"})
    with pytest.raises(ModuleMissing, match=r"no module 'h\.0\.mlp\.c_projj' in GPT2Model; children of h\.0\.mlp: c_fc, c_proj, act"), record_layers(model):
        pass
    assert n_hooks(model) == 0


def test_a_missing_module_is_both_an_atlas_error_and_a_lookup_error() -> None:
    with pytest.raises(LookupError):
        find(torch.nn.Linear(1, 1), "weights")
    with pytest.raises(AtlasError, match="children of Linear: none"):
        find(torch.nn.Linear(1, 1), "weights")


def test_a_module_that_the_forward_pass_goes_round_is_an_error() -> None:
    model = tiny_model("llama")
    model.layer_module(1, "mlp").add_module("never_called", torch.nn.Linear(1, 1))
    silent = with_facts(model, ffn__down="mlp.never_called")
    model.layer_module(0, "mlp").add_module("never_called", torch.nn.Linear(1, 1))
    both = "nothing was recorded for coefficient of layer 0, coefficient of layer 1"
    with pytest.raises(AtlasError, match=both), listen(silent, [coefficients(lambda *_: None)]):
        silent.backbone(token_batch(1, 4))
    with pytest.raises(AtlasError, match="nothing was recorded for coefficient of layer 0"), record_layers(silent):
        silent.backbone(token_batch(1, 4))


def test_every_forward_pass_fills_the_recording_anew() -> None:
    model = tiny_model("gemma2")
    with record_layers(model) as recording:
        model.backbone(token_batch(2, 6))
        first = recording[1]["resid_post"].clone()
        model.backbone(token_batch(1, 3, seed=1))
        assert tuple(recording[1]["resid_post"].shape) == (1, 3, model.d_model)
        model.backbone(token_batch(2, 6))
        assert torch.equal(recording[1]["resid_post"], first)


def test_recorded_states_keep_the_dtype_of_the_forward_pass() -> None:
    model = tiny_model("olmo2", dtype=torch.bfloat16)
    with record_layers(model) as recording:
        model.backbone(token_batch(1, 3))
    assert {record[name].dtype for record in recording for name in RECORDED if name != "ffn_scale"} == {torch.bfloat16}
    assert recording[0]["ffn_scale"].dtype == torch.float32
