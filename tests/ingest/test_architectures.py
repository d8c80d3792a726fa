"""The contract every architecture keeps. Expected numbers come from transformers' own outputs and from raw weights found by name."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from ingest.model.architectures import ARCHITECTURES, architecture_of, tiny_config
from ingest.model.checks import check_identities
from ingest.model.hooks import coefficients, listen, record_layers
from ingest.model.models import wrap
from schema.errors import AtlasError
from schema.terms import SITES
from tests.ingest.tiny_models import FAMILIES, marked, tiny_hf, tiny_model, tiny_tokenizer, token_batch

torch.set_num_threads(1)

every_architecture = pytest.mark.parametrize("model_type", FAMILIES)

VARIANTS = [(model_type, {}) for model_type in ARCHITECTURES] + [
    ("gpt_neox", {"use_parallel_residual": False}),
    ("gemma3_text", {"final_logit_softcapping": 0.5}),
    ("llama", {"mlp_bias": False, "head_dim": 6}),
    ("opt", {"enable_bias": False, "layer_norm_elementwise_affine": False}),
    ("phi", {"qk_layernorm": True}),
]
IDS = [f"{m}{'-' + '-'.join(c) if c else ''}" for m, c in VARIANTS]
every_variant = pytest.mark.parametrize(("model_type", "changes"), marked(VARIANTS), ids=IDS)

ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}

FFN_WEIGHTS = [  # gate, up, down: the names of every family, by which the test finds them without the entry under test
    ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    (None, "mlp.c_fc", "mlp.c_proj"),
    (None, "mlp.fc_in", "mlp.fc_out"),
    (None, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
    (None, "mlp.fc1", "mlp.fc2"),
    (None, "fc1", "fc2"),
]


class RawFfn:
    """One layer's FFN from the state dict alone."""

    def __init__(self, hf: PreTrainedModel, layer: int) -> None:
        self.weights = {name.split(f".{layer}.", 1)[1]: w for name, w in hf.state_dict().items() if f".{layer}." in name}
        self.gate, self.up, self.down = next(names for names in FFN_WEIGHTS if f"{names[1]}.weight" in self.weights)
        self.d_model = hf.config.hidden_size
        self.config = hf.config

    def linear(self, name: str) -> tuple[Tensor, Tensor | float]:
        return self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias", 0.0)

    def apply(self, name: str, x: Tensor) -> Tensor:
        """x through an input projection; GPT-2's is stored [in, out]."""
        weight, bias = self.linear(name)
        return x @ (weight if weight.shape[0] == self.d_model else weight.T) + bias

    def coefficients(self, x: Tensor, activation: str) -> Tensor:
        act = ACTIVATIONS[activation]
        return act(self.apply(self.gate, x)) * self.apply(self.up, x) if self.gate else act(self.apply(self.up, x))

    def values(self) -> Tensor:
        weight, _ = self.linear(self.down)
        values = weight if weight.shape[1] == self.d_model else weight.T
        gain = self.weights.get("post_feedforward_layernorm.weight")
        if gain is not None:
            values = values * (gain + 1 if "gemma" in self.config.model_type else gain)
        return values * getattr(self.config, "residual_multiplier", 1.0)

    def output(self, coefficients: Tensor) -> Tensor:
        """What the FFN adds to the stream, the norm after it and the multiplier included."""
        weight, bias = self.linear(self.down)
        raw = coefficients @ (weight if weight.shape[1] == self.d_model else weight.T) + bias
        gain = self.weights.get("post_feedforward_layernorm.weight")
        if gain is not None:
            rms = (raw.pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps).sqrt()
            raw = raw / rms * (gain + 1 if "gemma" in self.config.model_type else gain)
        return raw * getattr(self.config, "residual_multiplier", 1.0)


def ffn_inputs(hf: PreTrainedModel, token_ids: Tensor) -> dict[int, Tensor]:
    """What each layer's keys see, read at the input projection."""
    seen: dict[int, Tensor] = {}
    handles = []
    for layer in range(hf.config.num_hidden_layers):
        up = RawFfn(hf, layer).up
        module = next(m for name, m in hf.named_modules() if name.endswith(f".{layer}.{up}"))
        handles.append(module.register_forward_pre_hook(lambda _, args, layer=layer: seen.update({layer: args[0].reshape(*token_ids.shape, -1)})))
    with torch.inference_mode():
        hf(token_ids, use_cache=False)
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize(("model_type", "changes"), VARIANTS, ids=IDS)
@pytest.mark.parametrize("tied", [True, False])
def test_the_identities_hold(model_type: str, changes: dict, tied: bool) -> None:
    model = tiny_model(model_type, tie_word_embeddings=tied, **changes)
    assert model.is_tied is tied
    assert max(check_identities(model).values()) < 2e-6


@every_architecture
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_identities_hold_in_half_precision(model_type: str, dtype: torch.dtype) -> None:
    check_identities(tiny_model(model_type, dtype=dtype))


@every_variant
def test_coefficients_equal_those_computed_from_raw_weights(model_type: str, changes: dict) -> None:
    model, token_ids = tiny_model(model_type, **changes), token_batch(2, 11)
    with record_layers(model) as recording:
        model.backbone(token_ids)
    for layer, x in ffn_inputs(model.hf, token_ids).items():
        expected = RawFfn(model.hf, layer).coefficients(x, model.activation)
        assert expected.abs().max() > 0.01
        torch.testing.assert_close(recording[layer]["coefficient"], expected, rtol=1e-5, atol=1e-6)


@every_variant
def test_ffn_out_is_what_the_raw_weights_add_to_the_stream(model_type: str, changes: dict) -> None:
    model, token_ids = tiny_model(model_type, **changes), token_batch(2, 11)
    with record_layers(model) as recording:
        model.backbone(token_ids)
    for layer, x in ffn_inputs(model.hf, token_ids).items():
        raw = RawFfn(model.hf, layer)
        torch.testing.assert_close(recording[layer]["ffn_out"], raw.output(raw.coefficients(x, model.activation)), rtol=1e-4, atol=1e-5)


@every_variant
def test_values_keys_and_bias_equal_the_raw_weights(model_type: str, changes: dict) -> None:
    model = tiny_model(model_type, **changes)
    for layer in range(model.n_layers):
        raw = RawFfn(model.hf, layer)
        torch.testing.assert_close(model.values(layer), raw.values())
        eye = torch.eye(model.d_model)
        zero = torch.zeros(1, model.d_model)
        torch.testing.assert_close(model.keys(layer).T, raw.apply(raw.up, eye) - raw.apply(raw.up, zero))
        assert model.is_gated == (raw.gate is not None)
        if raw.gate:
            torch.testing.assert_close(model.gate_keys(layer).T, raw.apply(raw.gate, eye) - raw.apply(raw.gate, zero))
        bias = model.ffn_bias(layer)
        assert (bias is not None) == (f"{raw.down}.bias" in raw.weights)
        assert bias is None or bias.abs().min() > 0


@every_variant
def test_sub_updates_sum_to_ffn_out(model_type: str, changes: dict) -> None:
    model = tiny_model(model_type, **changes)
    with record_layers(model) as recording:
        model.backbone(token_batch(1, 5))
    for layer in range(model.n_layers):
        scale = recording[layer]["ffn_scale"]
        assert scale.shape == (1, 5) and scale.dtype == torch.float32
        assert bool((scale == 1).all()) != model.is_ffn_output_normed
        bias = model.ffn_bias(layer)
        for position in range(5):
            total = torch.zeros(model.d_model) if bias is None else bias.clone()
            for coefficient, value in zip(recording[layer]["coefficient"][0, position], model.values(layer), strict=True):
                total += coefficient * value
            torch.testing.assert_close(total * scale[0, position], recording[layer]["ffn_out"][0, position], rtol=1e-4, atol=1e-5)


@every_variant
def test_parts_of_the_last_state_add_up_to_the_models_own_logits_when_the_final_norm_is_frozen(model_type: str, changes: dict) -> None:
    """Switching one part off, the norm's divisor held, takes its frozen score away: the sum of all parts is the logit before a soft-cap, less a constant."""
    model, token_ids = tiny_model(model_type, **changes), token_batch(2, 9)
    with torch.inference_mode(), record_layers(model) as recording:
        logits = model.hf(token_ids, use_cache=False).logits.double()
    config, head = model.hf.config, model.hf.get_output_embeddings()
    cap = getattr(config, "final_logit_softcapping", None)
    # what is there without any state: the norm's bias and the head's
    names = ("transformer.ln_f", "gpt_neox.final_layer_norm", "model.decoder.final_layer_norm", "model.final_layernorm", "model.norm")
    final = next(module for name, module in model.hf.named_modules() if name in names)
    beta, bias = getattr(final, "bias", None), head.bias
    constant = (0 if beta is None else head.weight @ beta) + (0 if bias is None else bias)
    constant = torch.as_tensor(constant / getattr(config, "logits_scaling", 1.0)).double()
    parts = [recording[0]["resid_pre"], *(recording[layer][site] for layer in range(model.n_layers) for site in ("attn_out", "ffn_out"))]
    readers, scale = model.logit_readers(torch.arange(model.d_vocab)), model.final_scale(recording[-1]["resid_post"])
    total = sum((part @ readers.T / scale[..., None]).double() for part in parts)
    uncapped = total + constant
    torch.testing.assert_close(cap * torch.tanh(uncapped / cap) if cap else uncapped, logits, rtol=1e-4, atol=1e-4 * float(logits.abs().max()))


@every_variant
def test_states_equal_the_hidden_states_of_transformers(model_type: str, changes: dict) -> None:
    model, token_ids = tiny_model(model_type, **changes), token_batch(2, 9)
    with record_layers(model) as recording:
        model.backbone(token_ids)
    with torch.inference_mode():
        # its last entry is after the final norm in most families, so it is left out
        hidden = model.hf(token_ids, use_cache=False, output_hidden_states=True).hidden_states[:-1]
    for layer in range(model.n_layers):
        torch.testing.assert_close(recording[layer]["resid_pre"], hidden[layer])
        assert all(recording[layer][site] is not None for site in SITES)
    for layer in range(model.n_layers - 1):
        torch.testing.assert_close(recording[layer]["resid_post"], hidden[layer + 1])
        torch.testing.assert_close(recording[layer]["resid_post"], recording[layer + 1]["resid_pre"])


@every_architecture
def test_no_site_is_trivial(model_type: str) -> None:
    model = tiny_model(model_type)
    with record_layers(model) as recording:
        model.backbone(token_batch(2, 9))
    for layer in range(model.n_layers):
        states = [recording[layer][site] for site in SITES]
        assert all(tuple(state.shape) == (2, 9, model.d_model) for state in states)
        for i, a in enumerate(states):
            assert a.norm() > 0.1
            assert all((a - b).norm() > 0.05 * a.norm() for b in states[i + 1 :])


@every_variant
@pytest.mark.parametrize("tied", [True, False])
def test_lens_of_the_last_state_gives_the_models_logits(model_type: str, changes: dict, tied: bool) -> None:
    model, token_ids = tiny_model(model_type, tie_word_embeddings=tied, **changes), token_batch(2, 9)
    with record_layers(model) as recording:
        model.backbone(token_ids)
    with torch.inference_mode():
        logits = model.hf(token_ids, use_cache=False).logits
    torch.testing.assert_close(model.lens(recording[-1]["resid_post"]), logits, rtol=1e-5, atol=1e-5)


@every_variant
def test_padding_on_the_right_changes_no_real_position(model_type: str, changes: dict) -> None:
    model = tiny_model(model_type, **changes)
    sequences = [token_batch(1, n, seed=n) for n in (5, 13, 9)]
    for pad in (0, 1, 299):
        batch = torch.full((3, 13), pad)
        for row, sequence in zip(batch, sequences, strict=True):
            row[: sequence.shape[1]] = sequence
        padded: dict[int, Tensor] = {}
        with listen(model, [coefficients(lambda layer, m, into=padded: into.update({layer: m.clone()}))]):
            model.backbone(batch)
        for row, sequence in enumerate(sequences):
            single: dict[int, Tensor] = {}
            with listen(model, [coefficients(lambda layer, m, into=single: into.update({layer: m.clone()}))]):
                model.backbone(sequence)
            for layer in range(model.n_layers):
                torch.testing.assert_close(padded[layer][row, : sequence.shape[1]], single[layer][0], rtol=1e-5, atol=1e-5)


@every_architecture
def test_sizes_are_those_of_the_configuration(model_type: str) -> None:
    model, config = tiny_model(model_type), tiny_config(model_type)
    assert (model.model_type, model.n_layers, model.d_model, model.d_vocab) == (model_type, 2, config.hidden_size, 300)
    assert model.n_heads == config.num_attention_heads
    assert model.n_heads % model.n_kv_heads == 0
    assert tuple(model.values(1).shape) == tuple(model.keys(1).shape) == (model.d_ffn, model.d_model)
    assert model.d_ffn != model.d_model
    assert model.activation in ACTIVATIONS


def test_parallel_families_have_a_virtual_resid_mid() -> None:
    assert all(tiny_model(m).is_parallel for m in ("gptj", "gpt_neox", "phi"))
    assert not any(tiny_model(m).is_parallel for m in ("gpt2", "opt", "llama", "gemma2"))
    assert not tiny_model("gpt_neox", use_parallel_residual=False).is_parallel


def test_families_with_a_norm_after_the_ffn_are_marked() -> None:
    assert all(tiny_model(m).is_ffn_output_normed for m in ("gemma2", "gemma3_text", "olmo2"))
    assert not any(tiny_model(m).is_ffn_output_normed for m in ("gpt2", "gptj", "llama", "gemma"))


def test_what_is_no_causal_language_model_is_refused_and_what_has_no_entry_is_none() -> None:
    with pytest.raises(AtlasError, match=r"vit.*is no causal language model .* entries for bloom, gemma, .*, qwen3, and others are recognised$"):
        architecture_of({"model_type": "vit"}, "some/model")
    assert architecture_of({"model_type": "stablelm"}, "some/model") is None


@pytest.mark.parametrize("config", [{"model_type": "qwen2_moe"}, {"model_type": "mixtral", "num_local_experts": 8}, {"model_type": "olmoe", "num_experts": 64}])
def test_a_mixture_of_experts_is_refused_by_name(config: dict) -> None:
    with pytest.raises(AtlasError, match=f"{config['model_type']}' is a mixture of experts"):
        architecture_of(config, "some/model")


@pytest.mark.parametrize(
    ("model_type", "changes", "reason"),
    [
        ("opt", {"do_layer_norm_before": False}, "do_layer_norm_before"),
        ("opt", {"word_embed_proj_dim": 8}, "word_embed_proj_dim"),
        ("opt", {"_remove_final_layer_norm": True}, "no final norm"),
        ("bloom", {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
    ],
)
def test_a_variant_whose_stream_is_no_sum_is_refused(model_type: str, changes: dict, reason: str) -> None:
    with pytest.raises(AtlasError, match=reason):
        wrap(tiny_hf(model_type, **changes), tiny_tokenizer(), "tiny")
