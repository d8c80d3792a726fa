"""Gemma 2: Gemma with norms after attention and FFN, soft-caps of scores and logits, and a window in every other layer."""

from dataclasses import replace

from transformers import PretrainedConfig

from ingest.model.facts import Ffn, config_attribute, in_local_layers
from ingest.model.families import gemma


def scale(config: PretrainedConfig, layer: int) -> float:
    return config.query_pre_attn_scalar**-0.5


FAMILY = replace(
    gemma.FAMILY,
    stream=replace(gemma.FAMILY.stream, logit_softcap=config_attribute("final_logit_softcapping")),
    attention=replace(
        gemma.FAMILY.attention,
        write="post_attention_layernorm",
        after_norm="post_attention_layernorm",
        scale=scale,
        softcap=config_attribute("attn_logit_softcapping"),
        window=in_local_layers("sliding_window"),
    ),
    ffn=Ffn(
        write="post_feedforward_layernorm",
        read="pre_feedforward_layernorm",
        up="mlp.up_proj",
        gate="mlp.gate_proj",
        down="mlp.down_proj",
        after_norm="post_feedforward_layernorm",
        activation=config_attribute("hidden_activation"),
    ),
    tiny={**gemma.FAMILY.tiny, "sliding_window": 4, "final_logit_softcapping": 0.5, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 5},
)
