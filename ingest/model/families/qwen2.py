"""Qwen2: Llama with biases of q, k and v, and windows in some layers if the configuration turns them on."""

from dataclasses import replace

from ingest.model.facts import in_local_layers
from ingest.model.families import llama

FAMILY = replace(
    llama.FAMILY,
    attention=replace(llama.FAMILY.attention, window=in_local_layers("sliding_window")),
    tiny={**llama.TINY, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
)
