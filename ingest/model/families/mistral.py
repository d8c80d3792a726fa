"""Mistral: Llama with a window in every layer."""

from dataclasses import replace

from ingest.model.facts import every_layer, of
from ingest.model.families import llama

FAMILY = replace(
    llama.FAMILY,
    attention=replace(llama.FAMILY.attention, window=every_layer(of("sliding_window"))),
    tiny={**llama.TINY, "sliding_window": 4},
)
