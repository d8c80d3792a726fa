"""GPT-Neo: GPT-2 with separate projections for q, k and v, unscaled scores, and a window in every other layer."""

from dataclasses import replace

from transformers import PretrainedConfig

from ingest.model.facts import NONE, ONE, VOCABULARY, Attention, every_layer
from ingest.model.families import gpt2


def window(config: PretrainedConfig, layer: int) -> int | None:
    return config.window_size if config.attention_layers[layer] == "local" else None


FAMILY = replace(
    gpt2.FAMILY,
    attention=Attention(
        write="attn",
        norm="ln_1",
        q="attn.attention.q_proj",
        k="attn.attention.k_proj",
        v="attn.attention.v_proj",
        o="attn.attention.out_proj",
        scale=every_layer(ONE),
        window=window,
    ),
    is_conv1d=False,
    objection=NONE,
    tiny={
        **VOCABULARY,
        "hidden_size": 16,
        "num_layers": 2,
        "num_heads": 2,
        "max_position_embeddings": 64,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 4,
    },
)
