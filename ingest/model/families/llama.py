"""Llama, whose module names most later families took over."""

from ingest.model.facts import SMALL, Architecture, Attention, Ffn, Rotary, Stream

TINY = {**SMALL, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2}
"""Sizes for tests, shared by the families derived from Llama."""

FAMILY = Architecture(
    stream=Stream(backbone="model", layers="layers", final_norm="norm", token_embedding="embed_tokens"),
    attention=Attention(
        write="self_attn",
        norm="input_layernorm",
        q="self_attn.q_proj",
        k="self_attn.k_proj",
        v="self_attn.v_proj",
        o="self_attn.o_proj",
        rotary=Rotary(),
    ),
    ffn=Ffn(write="mlp", read="post_attention_layernorm", up="mlp.up_proj", gate="mlp.gate_proj", down="mlp.down_proj"),
    tiny={**TINY, "mlp_bias": True, "attention_bias": True},
)
