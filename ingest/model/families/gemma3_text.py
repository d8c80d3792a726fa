"""Gemma 3: Gemma 2 with norms of q and k in place of the scores' soft-cap, and separate RoPE bases for local and global layers."""

from dataclasses import replace

from transformers import PretrainedConfig

from ingest.model.facts import NONE, Rotary, constant_fact
from ingest.model.families import gemma, gemma2


def layer_type(config: PretrainedConfig, layer: int) -> str:
    return config.layer_types[layer]


FAMILY = replace(
    gemma2.FAMILY,
    attention=replace(
        gemma2.FAMILY.attention,
        # its configuration has a cap of scores, which its code never applies
        softcap=NONE,
        q_norm=constant_fact("self_attn.q_norm"),
        k_norm=constant_fact("self_attn.k_norm"),
        rotary=Rotary(layer_type=layer_type),
    ),
    tiny={**gemma.FAMILY.tiny, "sliding_window": 4, "query_pre_attn_scalar": 5, "layer_types": ["sliding_attention", "full_attention"]},
)
