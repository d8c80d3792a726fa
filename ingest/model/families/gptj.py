"""GPT-J: parallel blocks, and RoPE on adjacent pairs of some dimensions, by a table within each layer."""

from ingest.model.facts import VOCABULARY, Architecture, Attention, Ffn, Rotary, Stream, config_attribute, constant_fact

FAMILY = Architecture(
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
