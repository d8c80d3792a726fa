"""Heads rebuilt from weights and facts alone do what transformers' own attention does, in every family."""

import pytest
import torch

from ingest.model.agreement import relative_error
from ingest.model.architectures import ARCHITECTURES
from ingest.model.embedding import position_rows, token_rows
from ingest.model.facts import NONE, NONE_IN_ALL, ONE, Rotary, constant_fact, every_layer
from ingest.model.heads import head_outputs, layer_heads, pattern
from ingest.model.models import Model
from ingest.model.score_positions import alibi_slopes
from tests.ingest.attention_oracle import eager_model, run, written_by_one_head
from tests.ingest.tiny_models import FAMILIES, marked, token_batch, with_facts

torch.set_num_threads(1)

YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}

VARIANTS = [(model_type, {}) for model_type in ARCHITECTURES] + [
    ("bloom", {"hidden_size": 24, "n_head": 6}),
    ("gemma2", {"attn_logit_softcapping": 0.5}),
    ("gemma2", {"attn_logit_softcapping": None}),
    ("gemma3_text", {"attn_logit_softcapping": 0.5}),
    ("gpt2", {"scale_attn_weights": False}),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    ("gpt_neox", {"attention_bias": False, "num_attention_heads": 1}),
    ("llama", {"attention_bias": False, "head_dim": 6}),
    ("llama", {"rope_parameters": YARN}),
    ("llama", {"rope_parameters": LLAMA3}),
    ("mistral", {"sliding_window": None, "num_key_value_heads": 1}),
    ("opt", {"enable_bias": False, "layer_norm_elementwise_affine": False}),
    ("phi", {"qk_layernorm": True}),
    ("qwen3", {"use_sliding_window": False}),
]
every_variant = pytest.mark.parametrize(("model_type", "changes"), marked(VARIANTS), ids=[f"{m}{'-' + '-'.join(c) if c else ''}" for m, c in VARIANTS])

N_POSITIONS = 13


def token_ids() -> torch.Tensor:
    return token_batch(2, N_POSITIONS)


def errors(model: Model) -> dict[str, float]:
    """Largest error over layers of the patterns, absolute, and of what the heads and the bias add up to, relative."""
    seen, of_patterns, of_sums = run(model, token_ids()), [0.0], [0.0]
    for layer, resid_pre in seen.resid_pre.items():
        weights, bias = pattern(model, layer, resid_pre), layer_heads(model, layer).b_o
        total = head_outputs(model, layer, resid_pre, weights).sum(-2) + (0 if bias is None else bias)
        of_patterns.append(float((weights - seen.patterns[layer]).abs().max()))
        of_sums.append(relative_error(total, seen.written[layer]))
    return {"pattern": max(of_patterns), "sum": max(of_sums)}


@every_variant
def test_patterns_and_the_sum_of_heads_are_those_of_the_models_own_attention(model_type: str, changes: dict) -> None:
    found = errors(eager_model(model_type, **changes))
    assert found["pattern"] < 1e-5
    assert found["sum"] < 1e-5


@every_variant
def test_each_head_writes_what_the_output_projection_makes_of_its_part_alone(model_type: str, changes: dict) -> None:
    model = eager_model(model_type, **changes)
    seen = run(model, token_ids())
    outputs = head_outputs(model, 0, seen.resid_pre[0], pattern(model, 0, seen.resid_pre[0]))
    assert outputs.shape == (2, N_POSITIONS, model.hf.config.num_attention_heads, model.d_model)
    for head in range(model.n_heads):
        assert relative_error(outputs[:, :, head], written_by_one_head(model, token_ids(), 0, head)) < 1e-5


@pytest.mark.parametrize("model_type", FAMILIES)
def test_no_pattern_is_trivial(model_type: str) -> None:
    """Else a wrong fact could hide: the models' own patterns differ between heads and from the uniform one."""
    for weights in run(eager_model(model_type), token_ids()).patterns:
        seen = (weights > 0).sum(-1, keepdim=True)
        assert (weights - (weights > 0) / seen).abs().max() > 0.1
        assert all((weights[:, 0] - weights[:, head]).abs().max() > 0.05 for head in range(1, weights.shape[1]))


@pytest.mark.parametrize(
    ("model_type", "n_sources"),
    [("gpt_neo", (13, 4)), ("mistral", (4, 4)), ("qwen2", (13, 4)), ("gemma2", (4, 13)), ("gemma3_text", (4, 13)), ("llama", (13, 13))],
)
def test_a_window_holds_as_many_positions_as_the_configuration_says(model_type: str, n_sources: tuple[int, int]) -> None:
    model = eager_model(model_type)
    for layer, resid_pre in run(model, token_ids()).resid_pre.items():
        last = pattern(model, layer, resid_pre)[:, :, -1]
        assert bool((last[..., -n_sources[layer] :] > 0).all())
        assert float(last[..., : -n_sources[layer]].sum()) == 0


@pytest.mark.parametrize(
    ("model_type", "facts"),
    [
        ("bloom", {"attention__is_alibi": False}),
        ("bloom", {"attention__layout": "blocks"}),
        ("gemma", {"attention__norm": None}),
        ("gemma2", {"attention__softcap": NONE}),
        ("gemma2", {"attention__scale": NONE_IN_ALL}),
        ("gemma2", {"attention__window": every_layer(constant_fact(4))}),
        ("gemma3_text", {"attention__softcap": constant_fact(0.5)}),
        ("gemma3_text", {"attention__rotary": Rotary(layer_type=every_layer(constant_fact("full_attention")))}),
        ("gemma3_text", {"attention__q_norm": NONE}),
        ("gpt2", {"attention__layout": "heads"}),
        ("gpt2", {"attention__norm": "ln_2"}),
        ("gpt_neo", {"attention__scale": NONE_IN_ALL}),
        ("gpt_neo", {"attention__window": NONE_IN_ALL}),
        ("gpt_neox", {"attention__layout": "blocks"}),
        ("gpt_neox", {"attention__norm": "post_attention_layernorm"}),
        ("gptj", {"attention__rotary": Rotary(angles="attn.embed_positions", is_table=True)}),
        ("granite", {"attention__scale": NONE_IN_ALL}),
        ("llama", {"attention__rotary": Rotary(is_adjacent=True)}),
        ("mistral", {"attention__window": NONE_IN_ALL}),
        ("olmo2", {"attention__norm": "post_attention_layernorm"}),
        ("olmo2", {"attention__k_norm": NONE}),
        ("opt", {"attention__scale": every_layer(ONE)}),
        ("phi", {"attention__rotary": None}),
        ("qwen2", {"attention__window": NONE_IN_ALL}),
        ("qwen3", {"attention__k_norm": NONE}),
    ],
)
def test_a_wrong_fact_gives_other_patterns(model_type: str, facts: dict) -> None:
    assert errors(with_facts(eager_model(model_type), **facts))["pattern"] > 0.01


@pytest.mark.parametrize("fact", ["q", "k", "v"])
def test_a_projection_taken_for_another_gives_other_sums(fact: str) -> None:
    other = {"q": "o", "k": "v", "v": "k"}[fact]
    assert errors(with_facts(eager_model("llama", num_key_value_heads=4), **{f"attention__{fact}": f"self_attn.{other}_proj"}))["sum"] > 0.01


def test_norms_of_each_head_are_not_one_norm_over_all_heads() -> None:
    """A gain that repeats itself for every head fits both readings."""
    model = eager_model("olmo2", num_key_value_heads=4)
    for layer in range(2):
        for norm in ("self_attn.q_norm", "self_attn.k_norm"):
            module = model.layer_module(layer, norm)
            module.weight.copy_(module.weight[:4].repeat(4))
    assert errors(model)["pattern"] < 1e-5
    seen = run(model, token_ids())
    for layer in range(2):
        for norm in ("self_attn.q_norm", "self_attn.k_norm"):
            model.layer_module(layer, norm).weight = torch.nn.Parameter(model.layer_module(layer, norm).weight[:4], requires_grad=False)
    alone = pattern(with_facts(model, attention__is_qk_norm_joint=False), 0, seen.resid_pre[0])
    assert (alone - seen.patterns[0]).abs().max() > 0.01


@pytest.mark.parametrize("model_type", FAMILIES)
def test_weights_by_head_have_the_shapes_of_the_configuration(model_type: str) -> None:
    model = eager_model(model_type)
    heads, config = layer_heads(model, 1), model.hf.config
    n, d_model = config.num_attention_heads, config.hidden_size
    n_kv, d_head = getattr(config, "num_key_value_heads", None) or n, getattr(config, "head_dim", None) or d_model // n
    assert heads.w_q.shape == (n, d_head, d_model)
    assert heads.w_k.shape == heads.w_v.shape == (n_kv, d_head, d_model)
    assert heads.w_o.shape == (n, d_model, d_head)
    assert (model.n_heads, model.n_kv_heads, model.d_head) == (n, n_kv, d_head)
    assert heads.b_q is None or heads.b_q.shape == (n, d_head)
    assert (heads.b_k is None) == (heads.b_v is None)
    assert heads.b_o is None or heads.b_o.shape == (d_model,)


@pytest.mark.thorough
def test_heads_have_the_biases_of_the_modules() -> None:
    with_biases = {
        (model_type, *(getattr(layer_heads(eager_model(model_type), 0), name) is not None for name in ("b_q", "b_v", "b_o"))) for model_type in ARCHITECTURES
    }
    everywhere = {"bloom", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "granite", "llama", "olmo2", "opt", "phi", "qwen3"}
    expected = {(model_type, True, True, True) for model_type in everywhere}
    expected |= {("gpt_neo", False, False, True), ("gptj", False, False, False), ("mistral", False, False, False), ("qwen2", True, True, False)}
    assert with_biases == expected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_heads_of_a_model_in_half_precision_are_float32(dtype: torch.dtype) -> None:
    model = eager_model("gemma2")
    seen = run(model, token_ids())
    model.hf.to(dtype)
    weights = pattern(model, 0, seen.resid_pre[0].to(dtype))
    outputs = head_outputs(model, 0, seen.resid_pre[0].to(dtype), weights)
    assert weights.dtype == outputs.dtype == layer_heads(model, 0).w_q.dtype == torch.float32
    assert (weights - seen.patterns[0]).abs().max() < 0.1


@pytest.mark.parametrize("model_type", FAMILIES)
def test_token_and_position_rows_add_up_to_what_enters_the_first_block(model_type: str) -> None:
    model = eager_model(model_type)
    resid_pre = run(model, token_ids()).resid_pre[0]
    assert relative_error(token_rows(model, token_ids()) + position_rows(model, N_POSITIONS), resid_pre) < 1e-6


@pytest.mark.parametrize(
    ("model_type", "facts"),
    [
        ("opt", {"stream__position_offset": 0}),
        ("gpt2", {"stream__position_embedding": None}),
        ("gemma", {"stream__embedding_multiplier": ONE}),
        ("granite", {"stream__embedding_multiplier": ONE}),
        ("bloom", {"stream__embedding_norm": None}),
    ],
)
def test_a_wrong_fact_of_the_embedding_gives_other_states(model_type: str, facts: dict) -> None:
    model = with_facts(eager_model(model_type), **facts)
    resid_pre = run(model, token_ids()).resid_pre[0]
    assert relative_error(token_rows(model, token_ids()) + position_rows(model, N_POSITIONS), resid_pre) > 0.1


def test_slopes_of_alibi_are_those_of_the_paper() -> None:
    """Its section 3: 1/2, 1/4, … 1/256 for 8 heads, and for 16 those with their geometric means between; for 12 the code takes every other one of these."""
    assert alibi_slopes(8) == [2**-i for i in range(1, 9)]
    assert alibi_slopes(16) == pytest.approx([2 ** (-i / 2) for i in range(1, 17)])
    assert alibi_slopes(12) == pytest.approx([2**-i for i in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
