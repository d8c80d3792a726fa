"""Every supported model family, one entry each: an architecture is a row of facts, not a subclass.

To add one, add an entry to `ARCHITECTURES`; its `tiny` arguments put it under the contract test (tests/ingest/test_architectures.py),
which needs an edit only if the FFN's weights have names that no family there uses. Module paths are dotted: `backbone` from the causal
language model, `layers` and `final_norm` from the backbone, the rest from one layer. Facts that depend on a checkpoint's configuration
are functions of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from transformers import AutoConfig, PretrainedConfig

from schema.errors import AtlasError

ConfigFact = Callable[[PretrainedConfig], Any]


def of(attribute: str) -> ConfigFact:
    """The fact is this attribute of the model's configuration."""
    return lambda config: getattr(config, attribute)


def always(fact: object) -> ConfigFact:
    """The fact is the same for every model of the family."""
    return lambda config: fact


HIDDEN_ACT, NO, NONE, ONE = of("hidden_act"), always(False), always(None), always(1.0)


@dataclass(frozen=True)
class Architecture:
    """Where a decoder block of one model family keeps what the atlas records (site names: DEFINITIONS, section 1)."""

    backbone: str
    """The decoder without its output head; its input is token ids."""
    layers: str
    """List of blocks. A block's input is resid_pre and its output resid_post."""
    final_norm: str
    attn_write: str
    """Module whose output, times `residual_multiplier`, attention adds to the stream (after a norm, if one follows)."""
    ffn_write: str
    """The same for the FFN."""
    ffn_read: str
    """Module whose input is the FFN sub-layer's residual input: its norm, or the FFN itself where none precedes.
    In a sequential block that is resid_mid; in a parallel one resid_pre, and resid_mid is the virtual resid_pre + attn_out."""
    ffn_up: str
    """Projection whose rows are the keys (the up keys of a gated FFN)."""
    ffn_down: str
    """Projection whose input is the coefficients."""
    ffn_gate: str | None = None
    ffn_after_norm: str | None = None
    """RMS norm between `ffn_down` and the residual add."""
    norm_gain_offset: float = 0.0
    """Gemma's norms multiply by 1 + weight."""
    is_conv1d: bool = False
    """GPT-2 stores projections as [in, out], every other family as [out, in]."""
    is_parallel: ConfigFact = NO
    activation: ConfigFact = HIDDEN_ACT
    residual_multiplier: ConfigFact = ONE
    logit_divisor: ConfigFact = ONE
    logit_softcap: ConfigFact = NONE
    objection: ConfigFact = NONE
    """Why a variant within the family cannot be recorded; None if it can."""
    tiny: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of a configuration small enough for tests: 2 layers, d_model at most 32, vocabulary 300."""


def bloom_objection(config: PretrainedConfig) -> str | None:
    if config.apply_residual_connection_post_layernorm:
        return "apply_residual_connection_post_layernorm adds to the normed state, so the residual stream is not the sum of its updates"
    return None


def gpt2_objection(config: PretrainedConfig) -> str | None:
    return "add_cross_attention writes to the stream a third time in each block" if config.add_cross_attention else None


def opt_objection(config: PretrainedConfig) -> str | None:
    if not config.do_layer_norm_before:
        return "do_layer_norm_before is false: norms inside the residual stream, so it is not the sum of its updates (opt-350m)"
    if config.word_embed_proj_dim != config.hidden_size:
        return "word_embed_proj_dim differs from hidden_size: a projection lies between the last layer and the output embedding"
    return "no final norm (_remove_final_layer_norm)" if config._remove_final_layer_norm else None


def gemma_objection(config: PretrainedConfig) -> str | None:
    return "use_bidirectional_attention: it is no causal language model" if config.use_bidirectional_attention else None


LLAMA_MODULES = MappingProxyType(
    {
        "backbone": "model",
        "layers": "layers",
        "final_norm": "norm",
        "attn_write": "self_attn",
        "ffn_write": "mlp",
        "ffn_read": "post_attention_layernorm",
        "ffn_up": "mlp.up_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_down": "mlp.down_proj",
    }
)
"""Module names that most later families took over from Llama."""

GPT2_MODULES = MappingProxyType(
    {
        "backbone": "transformer",
        "layers": "h",
        "final_norm": "ln_f",
        "attn_write": "attn",
        "ffn_write": "mlp",
        "ffn_read": "ln_2",
        "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj",
    }
)

POST_NORM_MODULES = MappingProxyType(
    LLAMA_MODULES
    | {
        "attn_write": "post_attention_layernorm",
        "ffn_write": "post_feedforward_layernorm",
        "ffn_after_norm": "post_feedforward_layernorm",
    }
)
"""Blocks that norm what attention and FFN wrote before adding it to the stream."""

VOCABULARY = MappingProxyType({"vocab_size": 300, "bos_token_id": 0, "eos_token_id": 0})
SMALL = MappingProxyType(VOCABULARY | {"hidden_size": 16, "num_hidden_layers": 2, "max_position_embeddings": 64})
SMALL_LLAMA = MappingProxyType(SMALL | {"intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2})
SMALL_GPT2 = MappingProxyType(VOCABULARY | {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "n_inner": 40})
SMALL_GEMMA = MappingProxyType(SMALL_LLAMA | {"head_dim": 8})

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "bloom": Architecture(
            backbone="transformer",
            layers="h",
            final_norm="ln_f",
            # the attention and FFN modules return their output plus the residual; the dense layers return the update alone
            attn_write="self_attention.dense",
            ffn_write="mlp.dense_4h_to_h",
            ffn_read="post_attention_layernorm",
            ffn_up="mlp.dense_h_to_4h",
            ffn_down="mlp.dense_4h_to_h",
            activation=always("gelu_pytorch_tanh"),
            objection=bloom_objection,
            tiny=VOCABULARY | {"hidden_size": 16, "n_layer": 2, "n_head": 2},
        ),
        "gemma": Architecture(**LLAMA_MODULES, norm_gain_offset=1.0, objection=gemma_objection, tiny=SMALL_GEMMA),
        "gemma2": Architecture(
            **POST_NORM_MODULES | {"ffn_read": "pre_feedforward_layernorm"},
            norm_gain_offset=1.0,
            activation=of("hidden_activation"),
            logit_softcap=of("final_logit_softcapping"),
            objection=gemma_objection,
            tiny=SMALL_GEMMA | {"sliding_window": 4, "final_logit_softcapping": 0.5, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 8},
        ),
        "gemma3_text": Architecture(
            **POST_NORM_MODULES | {"ffn_read": "pre_feedforward_layernorm"},
            norm_gain_offset=1.0,
            activation=of("hidden_activation"),
            logit_softcap=of("final_logit_softcapping"),
            objection=gemma_objection,
            tiny=SMALL_GEMMA | {"sliding_window": 4, "query_pre_attn_scalar": 8, "layer_types": ["sliding_attention", "full_attention"]},
        ),
        "gpt2": Architecture(
            **GPT2_MODULES,
            is_conv1d=True,
            activation=of("activation_function"),
            objection=gpt2_objection,
            tiny=SMALL_GPT2,
        ),
        "gpt_neo": Architecture(
            **GPT2_MODULES,
            activation=of("activation_function"),
            tiny=VOCABULARY
            | {
                "hidden_size": 16,
                "num_layers": 2,
                "num_heads": 2,
                "max_position_embeddings": 64,
                "attention_types": [[["global", "local"], 1]],
                "window_size": 4,
            },
        ),
        "gpt_neox": Architecture(
            backbone="gpt_neox",
            layers="layers",
            final_norm="final_layer_norm",
            attn_write="attention",
            ffn_write="mlp",
            ffn_read="post_attention_layernorm",
            ffn_up="mlp.dense_h_to_4h",
            ffn_down="mlp.dense_4h_to_h",
            is_parallel=of("use_parallel_residual"),
            tiny=SMALL | {"intermediate_size": 40, "num_attention_heads": 2},
        ),
        "gptj": Architecture(
            # one norm feeds attention and FFN
            **GPT2_MODULES | {"ffn_read": "ln_1", "ffn_up": "mlp.fc_in", "ffn_down": "mlp.fc_out"},
            is_parallel=always(True),
            activation=of("activation_function"),
            tiny=SMALL_GPT2 | {"rotary_dim": 4},
        ),
        "granite": Architecture(
            **LLAMA_MODULES,
            residual_multiplier=of("residual_multiplier"),
            logit_divisor=of("logits_scaling"),
            tiny=SMALL_LLAMA | {"residual_multiplier": 0.3, "logits_scaling": 4.0, "embedding_multiplier": 3.0, "attention_multiplier": 0.4, "mlp_bias": True},
        ),
        "llama": Architecture(**LLAMA_MODULES, tiny=SMALL_LLAMA | {"mlp_bias": True}),
        "mistral": Architecture(**LLAMA_MODULES, tiny=SMALL_LLAMA | {"sliding_window": 4}),
        "olmo2": Architecture(**POST_NORM_MODULES | {"ffn_read": "mlp"}, tiny=SMALL_LLAMA),
        "opt": Architecture(
            backbone="model.decoder",
            layers="layers",
            final_norm="final_layer_norm",
            attn_write="self_attn",
            ffn_write="fc2",
            ffn_read="final_layer_norm",
            ffn_up="fc1",
            ffn_down="fc2",
            activation=of("activation_function"),
            objection=opt_objection,
            tiny=SMALL | {"ffn_dim": 40, "num_attention_heads": 2, "word_embed_proj_dim": 16},
        ),
        "phi": Architecture(
            **LLAMA_MODULES | {"final_norm": "final_layernorm", "ffn_read": "input_layernorm", "ffn_up": "mlp.fc1", "ffn_gate": None, "ffn_down": "mlp.fc2"},
            is_parallel=always(True),
            tiny=SMALL | {"intermediate_size": 40, "num_attention_heads": 2},
        ),
        "qwen2": Architecture(**LLAMA_MODULES, tiny=SMALL_LLAMA),
        "qwen3": Architecture(**LLAMA_MODULES, tiny=SMALL_LLAMA | {"head_dim": 8}),
    }
)
"""model_type → its facts."""

EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def is_mixture_of_experts(config: Mapping[str, Any]) -> bool:
    """Whether a configuration, as its JSON has it, describes an FFN made of experts."""
    return "moe" in str(config.get("model_type", "")) or any(config.get(name) not in (None, 0, 1) for name in EXPERT_COUNTS)


def architecture_of(config: Mapping[str, Any], name: str) -> Architecture:
    """The entry for a model's configuration, as its JSON has it.

    Raises AtlasError for a model_type without an entry (naming the supported ones) and for a mixture of experts.
    """
    model_type = str(config.get("model_type"))
    if is_mixture_of_experts(config):
        raise AtlasError(f"model {name}: model_type '{model_type}' is a mixture of experts, which is not supported: an expert's keys see only part of the text")
    if model_type not in ARCHITECTURES:
        raise AtlasError(
            f"model {name}: model_type '{model_type}' is not supported; supported are {', '.join(sorted(ARCHITECTURES))}. "
            "docs/architecture.md says how to add a family"
        )
    return ARCHITECTURES[model_type]


def tiny_config(model_type: str, **changes: object) -> PretrainedConfig:
    """A configuration for tests, a few thousand parameters; `changes` override its arguments."""
    return AutoConfig.for_model(model_type, **{**ARCHITECTURES[model_type].tiny, **changes})
