"""Attention weights, heard: those of a plain eager forward pass in every family, for those who ask and for nobody else."""

import pytest
import torch

from ingest.model.heads import pattern
from ingest.model.hooks import PATTERN, RECORDED, LayerRecord, Listener, listen
from ingest.model.models import Model
from schema.errors import AtlasError
from tests.ingest.attention_oracle import eager_model, run
from tests.ingest.test_hooks import n_hooks
from tests.ingest.tiny_models import FAMILIES, code, tiny_model, token_batch, with_facts

torch.set_num_threads(1)


def heard(model: Model, token_ids: torch.Tensor, *sites: str, **options: object) -> list[LayerRecord]:
    records: list[LayerRecord] = []
    with listen(model, [Listener(frozenset(sites), lambda _, record: records.append(record), **options)]):
        model.backbone(token_ids)
    return records


def usual(model_type: str) -> Model:
    """The model of the oracle, with the attention that transformers takes by itself."""
    model = eager_model(model_type)
    model.hf.set_attn_implementation(code(model_type, model.hf.config) or ("sdpa" if model.hf._supports_sdpa else "eager"))
    return model


@pytest.mark.parametrize("model_type", FAMILIES)
def test_what_is_heard_is_what_a_plain_eager_pass_gives_and_what_the_weights_say(model_type: str) -> None:
    model, token_ids = usual(model_type), token_batch(2, 13)
    records = heard(model, token_ids, PATTERN, "resid_pre")
    seen = run(eager_model(model_type), token_ids).patterns
    assert len(records) == len(seen) == 2
    for layer, record in enumerate(records):
        assert torch.equal(record["pattern"], seen[layer])
        assert (record["pattern"] - pattern(model, layer, record["resid_pre"])).abs().max() < 1e-5


@pytest.mark.parametrize("model_type", FAMILIES)
def test_nothing_changes_for_those_who_do_not_ask_and_by_rounding_alone_beside_those_who_do(model_type: str) -> None:
    model, token_ids, calls = usual(model_type), token_batch(2, 13), []
    implementation, before = model.hf.config._attn_implementation, heard(model, token_ids, *RECORDED)
    for layer in range(2):
        module = model.layer_module(layer, model.architecture.attention.module)
        module.register_forward_hook(lambda *_: calls.append(model.hf.config._attn_implementation))
    beside = heard(model, token_ids, *RECORDED, PATTERN)
    after = heard(model, token_ids, *RECORDED)
    assert calls == ["eager"] * 2 + [implementation] * 2
    for one, other, last in zip(before, beside, after, strict=True):
        assert last.pattern is None
        for site in RECORDED:
            assert torch.equal(one[site], last[site])
            assert torch.allclose(one[site], other[site], rtol=1e-4, atol=1e-4)


def test_the_models_own_attention_comes_back_after_an_error() -> None:
    model = tiny_model("llama")
    implementation = model.hf.config._attn_implementation
    within = []

    def fail(*_: object) -> None:
        within.append(model.hf.config._attn_implementation)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), listen(model, [Listener(frozenset({PATTERN}), fail)]):
        model.backbone(token_batch(1, 4))
    assert within == ["eager"] != [implementation]
    assert (model.hf.config._attn_implementation, n_hooks(model)) == (implementation, 0)


def test_a_listener_keeps_of_the_weights_what_it_chooses() -> None:
    model, token_ids = usual("llama"), token_batch(2, 9)
    whole = heard(model, token_ids, PATTERN)
    last = heard(model, token_ids, PATTERN, keep=lambda _: None, keep_else={PATTERN: lambda x: x[:, :, -1].clone()})
    for all_rows, row in zip(whole, last, strict=True):
        assert torch.equal(all_rows["pattern"][:, :, -1], row["pattern"])


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "opt"])
def test_attention_that_gives_no_weights_is_an_error_and_no_empty_record(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = usual(model_type)
    monkeypatch.setattr(type(model.hf), "set_attn_implementation", lambda *_: None)
    path = f"{model.layer_path(0)}.{model.architecture.attention.module}"
    with pytest.raises(AtlasError, match=f"{path} gives none where attention weights of shape .* should be"):
        heard(model, token_batch(1, 4), PATTERN)


def test_weights_of_another_shape_are_an_error() -> None:
    """GPT-Neo's weights lie in a module of its attention; the output projection's parent elsewhere is the FFN here."""
    model = with_facts(usual("gpt_neo"), attention__o="mlp.c_proj")
    with pytest.raises(AtlasError, match=r"h\.0\.mlp gives none"):
        heard(model, token_batch(1, 4), PATTERN)
