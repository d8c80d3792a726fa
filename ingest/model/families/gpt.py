"""GPT-2 and other families with an FFN of two matrices: GPT-Neo, GPT-NeoX (Pythia), GPT-J, BLOOM, OPT and Phi."""

from dataclasses import replace

from transformers import PretrainedConfig

from ingest.model.facts import (
    NONE,
    ONE,
    SMALL,
    VOCABULARY,
    Architecture,
    Attention,
    ConfigFact,
    Ffn,
    Rotary,
    Stream,
    config_attribute,
    constant_fact,
    every_layer,
)


def scale_by_layer(config: PretrainedConfig, layer: int) -> float:
    whole = (config.hidden_size // config.num_attention_heads) ** -0.5 if config.scale_attn_weights else 1.0
    return whole / (layer + 1) if config.scale_attn_by_inverse_layer_idx else whole


def refuse_cross_attention(config: PretrainedConfig) -> str | None:
    return "add_cross_attention writes to the stream a third time in each block" if config.add_cross_attention else None


GPT2 = Architecture(
    stream=Stream(backbone="transformer", layers="h", final_norm="ln_f", token_embedding="wte", position_embedding="wpe"),
    attention=Attention(write="attn", norm="ln_1", q="attn.c_attn", k="attn.c_attn", v="attn.c_attn", o="attn.c_proj", layout="blocks", scale=scale_by_layer),
    ffn=Ffn(write="mlp", read="ln_2", up="mlp.c_fc", down="mlp.c_proj", activation=config_attribute("activation_function")),
    is_conv1d=True,
    objection=refuse_cross_attention,
    tiny={**VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "n_inner": 40},
)
"""GPT-2: learned positions, q, k and v in one projection, and every projection stored as [in, out]."""


def window_of_local_layers(config: PretrainedConfig, layer: int) -> int | None:
    return config.window_size if config.attention_layers[layer] == "local" else None


GPT_NEO = replace(
    GPT2,
    attention=Attention(
        write="attn",
        norm="ln_1",
        q="attn.attention.q_proj",
        k="attn.attention.k_proj",
        v="attn.attention.v_proj",
        o="attn.attention.out_proj",
        scale=every_layer(ONE),
        window=window_of_local_layers,
    ),
    is_conv1d=False,
    objection=NONE,
    tiny={
        **VOCABULARY,
        "hidden_size": 16,
        "num_layers": 2,
        "num_heads": 2,
        "max_position_embeddings": 64,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 4,
    },
)
"""GPT-Neo: GPT-2 with separate projections for q, k and v, unscaled scores, and a window in every other layer."""

GPT_NEOX = Architecture(
    stream=Stream(
        backbone="gpt_neox", layers="layers", final_norm="final_layer_norm", token_embedding="embed_in", is_parallel=config_attribute("use_parallel_residual")
    ),
    attention=Attention(
        write="attention",
        norm="input_layernorm",
        q="attention.query_key_value",
        k="attention.query_key_value",
        v="attention.query_key_value",
        o="attention.dense",
        layout="heads",
        rotary=Rotary(),
    ),
    ffn=Ffn(write="mlp", read="post_attention_layernorm", up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h"),
    tiny={**SMALL, "intermediate_size": 40, "num_attention_heads": 2},
)
"""GPT-NeoX and Pythia: parallel blocks, q, k and v of each head side by side, and RoPE on some dimensions."""

GPTJ = Architecture(
    stream=Stream(backbone="transformer", layers="h", final_norm="ln_f", token_embedding="wte", is_parallel=constant_fact(True)),
    attention=Attention(
        write="attn",
        norm="ln_1",
        q="attn.q_proj",
        k="attn.k_proj",
        v="attn.v_proj",
        o="attn.out_proj",
        rotary=Rotary(angles="attn.embed_positions", is_table=True, is_adjacent=True),
    ),
    # one norm feeds attention and FFN
    ffn=Ffn(write="mlp", read="ln_1", up="mlp.fc_in", down="mlp.fc_out", activation=config_attribute("activation_function")),
    tiny={**VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "n_inner": 40, "rotary_dim": 4},
)
"""GPT-J: parallel blocks, and RoPE on adjacent pairs of some dimensions, by a table within each layer."""


def refuse_post_norm_residual(config: PretrainedConfig) -> str | None:
    if config.apply_residual_connection_post_layernorm:
        return "apply_residual_connection_post_layernorm adds to the normed state, so the residual stream is not the sum of its updates"
    return None


BLOOM = Architecture(
    stream=Stream(
        backbone="transformer",
        layers="h",
        final_norm="ln_f",
        token_embedding="word_embeddings",
        embedding_norm="word_embeddings_layernorm",
        max_context=NONE,
    ),
    # the attention and FFN modules return their output plus the residual; the dense layers return the update alone
    attention=Attention(
        write="self_attention.dense",
        norm="input_layernorm",
        q="self_attention.query_key_value",
        k="self_attention.query_key_value",
        v="self_attention.query_key_value",
        o="self_attention.dense",
        layout="heads",
        is_alibi=True,
    ),
    ffn=Ffn(
        write="mlp.dense_4h_to_h",
        read="post_attention_layernorm",
        up="mlp.dense_h_to_4h",
        down="mlp.dense_4h_to_h",
        activation=constant_fact("gelu_pytorch_tanh"),
    ),
    objection=refuse_post_norm_residual,
    tiny={**VOCABULARY, "hidden_size": 16, "n_layer": 2, "n_head": 2},
)
"""BLOOM: ALiBi, a norm after the embedding, and q, k and v of each head side by side."""


def refuse_other_layouts(config: PretrainedConfig) -> str | None:
    if not config.do_layer_norm_before:
        return "do_layer_norm_before is false: norms lie inside the residual stream, so the stream is not the sum of its updates (opt-350m)"
    if config.word_embed_proj_dim != config.hidden_size:
        return "word_embed_proj_dim differs from hidden_size: a projection lies between the last layer and the output embedding"
    return "no final norm (_remove_final_layer_norm)" if config._remove_final_layer_norm else None


OPT = Architecture(
    stream=Stream(
        backbone="model.decoder",
        layers="layers",
        final_norm="final_layer_norm",
        token_embedding="embed_tokens",
        position_embedding="embed_positions",
        position_offset=2,
    ),
    attention=Attention(
        write="self_attn",
        norm="self_attn_layer_norm",
        q="self_attn.q_proj",
        k="self_attn.k_proj",
        v="self_attn.v_proj",
        o="self_attn.out_proj",
    ),
    ffn=Ffn(write="fc2", read="final_layer_norm", up="fc1", down="fc2", activation=config_attribute("activation_function")),
    objection=refuse_other_layouts,
    tiny={**SMALL, "ffn_dim": 40, "num_attention_heads": 2, "word_embed_proj_dim": 16},
)
"""OPT: learned positions whose rows begin at 2, and biases everywhere."""


def where_turned_on(norm: str) -> ConfigFact[str | None]:
    def path(config: PretrainedConfig) -> str | None:
        return norm if config.qk_layernorm else None

    return path


PHI = Architecture(
    stream=Stream(backbone="model", layers="layers", final_norm="final_layernorm", token_embedding="embed_tokens", is_parallel=constant_fact(True)),
    attention=Attention(
        write="self_attn",
        norm="input_layernorm",
        q="self_attn.q_proj",
        k="self_attn.k_proj",
        v="self_attn.v_proj",
        o="self_attn.dense",
        q_norm=where_turned_on("self_attn.q_layernorm"),
        k_norm=where_turned_on("self_attn.k_layernorm"),
        rotary=Rotary(),
    ),
    # one norm feeds attention and FFN
    ffn=Ffn(write="mlp", read="input_layernorm", up="mlp.fc1", down="mlp.fc2"),
    tiny={**SMALL, "intermediate_size": 40, "num_attention_heads": 2},
)
"""Phi: parallel blocks, RoPE on some dimensions, biases everywhere, and norms of q and k if the configuration turns them on."""

FAMILIES = {
    "gpt2": GPT2,
    "gpt_neo": GPT_NEO,
    "gpt_neox": GPT_NEOX,
    "gptj": GPTJ,
    "bloom": BLOOM,
    "opt": OPT,
    "phi": PHI,
}
"""Families by model_type."""
