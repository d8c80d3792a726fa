"""GPT-NeoX and Pythia: parallel blocks, q, k and v of each head side by side, and RoPE on some dimensions."""

from ingest.model.facts import SMALL, Architecture, Attention, Ffn, Rotary, Stream, config_attribute

FAMILY = Architecture(
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
