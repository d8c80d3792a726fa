"""Llama and the families that share its module names: norms, gates, RoPE."""

from dataclasses import replace

from transformers import PretrainedConfig

from ingest.model.facts import NONE, SMALL, Architecture, Attention, Ffn, Rotary, Stream, config_attribute, constant_fact, every_layer, in_local_layers

TINY = {**SMALL, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2}
"""Sizes for tests, shared by the families derived from Llama."""

LLAMA_ATTENTION = Attention(
    write="self_attn",
    norm="input_layernorm",
    q="self_attn.q_proj",
    k="self_attn.k_proj",
    v="self_attn.v_proj",
    o="self_attn.o_proj",
    rotary=Rotary(),
)

LLAMA = Architecture(
    stream=Stream(backbone="model", layers="layers", final_norm="norm", token_embedding="embed_tokens"),
    attention=LLAMA_ATTENTION,
    ffn=Ffn(write="mlp", read="post_attention_layernorm", up="mlp.up_proj", gate="mlp.gate_proj", down="mlp.down_proj"),
    tiny={**TINY, "mlp_bias": True, "attention_bias": True},
)
"""Llama, whose module names most later families took over."""

MISTRAL = replace(
    LLAMA,
    attention=replace(LLAMA_ATTENTION, window=every_layer(config_attribute("sliding_window"))),
    tiny={**TINY, "sliding_window": 4},
)
"""Mistral: Llama with a window in every layer."""

QWEN2_ATTENTION = replace(LLAMA_ATTENTION, window=in_local_layers("sliding_window"))

QWEN2 = replace(
    LLAMA,
    attention=QWEN2_ATTENTION,
    tiny={**TINY, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
)
"""Qwen2: Llama with biases of q, k and v, and windows in some layers if the configuration turns them on."""

QWEN3 = replace(
    QWEN2,
    attention=replace(QWEN2_ATTENTION, q_norm=constant_fact("self_attn.q_norm"), k_norm=constant_fact("self_attn.k_norm")),
    tiny={**QWEN2.tiny, "head_dim": 8, "attention_bias": True},
)
"""Qwen3: Qwen2 with norms of q and k, one gain for all heads."""

GRANITE = replace(
    LLAMA,
    stream=replace(
        LLAMA.stream,
        embedding_multiplier=config_attribute("embedding_multiplier"),
        residual_multiplier=config_attribute("residual_multiplier"),
        logit_divisor=config_attribute("logits_scaling"),
    ),
    attention=replace(LLAMA_ATTENTION, scale=every_layer(config_attribute("attention_multiplier"))),
    tiny={**LLAMA.tiny, "residual_multiplier": 0.3, "logits_scaling": 4.0, "embedding_multiplier": 3.0, "attention_multiplier": 0.4},
)
"""Granite: Llama with multipliers of the embedding, the scores, the updates and the logits."""

OLMO2 = replace(
    LLAMA,
    attention=replace(
        LLAMA_ATTENTION,
        write="post_attention_layernorm",
        norm=None,
        after_norm="post_attention_layernorm",
        q_norm=constant_fact("self_attn.q_norm"),
        k_norm=constant_fact("self_attn.k_norm"),
        is_qk_norm_joint=True,
    ),
    ffn=Ffn(
        write="post_feedforward_layernorm",
        read="mlp",
        up="mlp.up_proj",
        gate="mlp.gate_proj",
        down="mlp.down_proj",
        after_norm="post_feedforward_layernorm",
    ),
    tiny={**TINY, "attention_bias": True},
)
"""OLMo 2: Llama with norms after attention and FFN and none before them, and norms of q and k over all heads together."""


def root_of_d_model(config: PretrainedConfig) -> float:
    return config.hidden_size**0.5


def refuse_bidirectional(config: PretrainedConfig) -> str | None:
    return "use_bidirectional_attention: it is no causal language model" if config.use_bidirectional_attention else None


GEMMA = replace(
    LLAMA,
    stream=replace(LLAMA.stream, embedding_multiplier=root_of_d_model),
    norm_gain_offset=1.0,
    objection=refuse_bidirectional,
    tiny={**TINY, "head_dim": 8, "attention_bias": True},
)
"""Gemma: Llama with norms that multiply by 1 + weight, and token rows times √d_model."""


def scale_of_query(config: PretrainedConfig, layer: int) -> float:
    return config.query_pre_attn_scalar**-0.5


GEMMA2_ATTENTION = replace(
    LLAMA_ATTENTION,
    write="post_attention_layernorm",
    after_norm="post_attention_layernorm",
    scale=scale_of_query,
    softcap=config_attribute("attn_logit_softcapping"),
    window=in_local_layers("sliding_window"),
)

GEMMA2 = replace(
    GEMMA,
    stream=replace(GEMMA.stream, logit_softcap=config_attribute("final_logit_softcapping")),
    attention=GEMMA2_ATTENTION,
    ffn=Ffn(
        write="post_feedforward_layernorm",
        read="pre_feedforward_layernorm",
        up="mlp.up_proj",
        gate="mlp.gate_proj",
        down="mlp.down_proj",
        after_norm="post_feedforward_layernorm",
        activation=config_attribute("hidden_activation"),
    ),
    tiny={**GEMMA.tiny, "sliding_window": 4, "final_logit_softcapping": 0.5, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 5},
)
"""Gemma 2: Gemma with norms after attention and FFN, soft-caps of scores and logits, and a window in every other layer."""


def layer_type(config: PretrainedConfig, layer: int) -> str:
    return config.layer_types[layer]


GEMMA3_TEXT = replace(
    GEMMA2,
    attention=replace(
        GEMMA2_ATTENTION,
        # its configuration has a cap of scores, which its code never applies
        softcap=NONE,
        q_norm=constant_fact("self_attn.q_norm"),
        k_norm=constant_fact("self_attn.k_norm"),
        rotary=Rotary(layer_type=layer_type),
    ),
    tiny={**GEMMA.tiny, "sliding_window": 4, "query_pre_attn_scalar": 5, "layer_types": ["sliding_attention", "full_attention"]},
)
"""Gemma 3: Gemma 2 with norms of q and k in place of the scores' soft-cap, and separate RoPE bases for local and global layers."""

FAMILY = LLAMA
"""Former name of `LLAMA`, for families of other distributions; the next version removes it."""

FAMILIES = {
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "granite": GRANITE,
    "olmo2": OLMO2,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3_TEXT,
}
"""Families by model_type."""
