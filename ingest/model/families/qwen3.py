"""Qwen3: Qwen2 with norms of q and k, one gain for all heads."""

from dataclasses import replace

from ingest.model.facts import constant_fact
from ingest.model.families import qwen2

FAMILY = replace(
    qwen2.FAMILY,
    attention=replace(qwen2.FAMILY.attention, q_norm=constant_fact("self_attn.q_norm"), k_norm=constant_fact("self_attn.k_norm")),
    tiny={**qwen2.FAMILY.tiny, "head_dim": 8, "attention_bias": True},
)
