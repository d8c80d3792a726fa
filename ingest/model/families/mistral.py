"""Mistral: Llama with a window in every layer."""

from dataclasses import replace

from ingest.model.facts import config_attribute, every_layer
from ingest.model.families import llama

FAMILY = replace(
    llama.FAMILY,
    attention=replace(llama.FAMILY.attention, window=every_layer(config_attribute("sliding_window"))),
    tiny={**llama.TINY, "sliding_window": 4},
)
