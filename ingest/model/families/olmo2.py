"""OLMo 2: Llama with norms after attention and FFN and none before them, and norms of q and k over all heads together."""

from dataclasses import replace

from ingest.model.facts import Ffn, constant_fact
from ingest.model.families import llama

FAMILY = replace(
    llama.FAMILY,
    attention=replace(
        llama.FAMILY.attention,
        write="post_attention_layernorm",
        norm=None,
        after_norm="post_attention_layernorm",
        q_norm=constant_fact("self_attn.q_norm"),
        k_norm=constant_fact("self_attn.k_norm"),
        is_qk_norm_joint=True,
    ),
    ffn=Ffn(
        write="post_feedforward_layernorm",
        read="mlp",
        up="mlp.up_proj",
        gate="mlp.gate_proj",
        down="mlp.down_proj",
        after_norm="post_feedforward_layernorm",
    ),
    tiny={**llama.TINY, "attention_bias": True},
)
