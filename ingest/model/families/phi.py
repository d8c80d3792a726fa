"""Phi: parallel blocks, RoPE on some dimensions, biases everywhere, and norms of q and k if the configuration turns them on."""

from transformers import PretrainedConfig

from ingest.model.facts import SMALL, Architecture, Attention, ConfigFact, Ffn, Rotary, Stream, constant_fact


def where_turned_on(norm: str) -> ConfigFact[str | None]:
    def path(config: PretrainedConfig) -> str | None:
        return norm if config.qk_layernorm else None

    return path


FAMILY = Architecture(
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
