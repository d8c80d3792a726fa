"""GPT-2: learned positions, q, k and v in one projection, and every projection stored as [in, out]."""

from transformers import PretrainedConfig

from ingest.model.facts import VOCABULARY, Architecture, Attention, Ffn, Stream, config_attribute


def scale(config: PretrainedConfig, layer: int) -> float:
    whole = (config.hidden_size // config.num_attention_heads) ** -0.5 if config.scale_attn_weights else 1.0
    return whole / (layer + 1) if config.scale_attn_by_inverse_layer_idx else whole


def objection(config: PretrainedConfig) -> str | None:
    return "add_cross_attention writes to the stream a third time in each block" if config.add_cross_attention else None


FAMILY = Architecture(
    stream=Stream(backbone="transformer", layers="h", final_norm="ln_f", token_embedding="wte", position_embedding="wpe"),
    attention=Attention(write="attn", norm="ln_1", q="attn.c_attn", k="attn.c_attn", v="attn.c_attn", o="attn.c_proj", layout="blocks", scale=scale),
    ffn=Ffn(write="mlp", read="ln_2", up="mlp.c_fc", down="mlp.c_proj", activation=config_attribute("activation_function")),
    is_conv1d=True,
    objection=objection,
    tiny={**VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "n_inner": 40},
)
