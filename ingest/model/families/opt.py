"""OPT: learned positions whose rows begin at 2, and biases everywhere."""

from transformers import PretrainedConfig

from ingest.model.facts import SMALL, Architecture, Attention, Ffn, Stream, config_attribute


def objection(config: PretrainedConfig) -> str | None:
    if not config.do_layer_norm_before:
        return "do_layer_norm_before is false: norms lie inside the residual stream, so the stream is not the sum of its updates (opt-350m)"
    if config.word_embed_proj_dim != config.hidden_size:
        return "word_embed_proj_dim differs from hidden_size: a projection lies between the last layer and the output embedding"
    return "no final norm (_remove_final_layer_norm)" if config._remove_final_layer_norm else None


FAMILY = Architecture(
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
    objection=objection,
    tiny={**SMALL, "ffn_dim": 40, "num_attention_heads": 2, "word_embed_proj_dim": 16},
)
