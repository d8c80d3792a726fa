"""Granite: Llama with multipliers of the embedding, the scores, the updates and the logits."""

from dataclasses import replace

from ingest.model.facts import config_attribute, every_layer
from ingest.model.families import llama

FAMILY = replace(
    llama.FAMILY,
    stream=replace(
        llama.FAMILY.stream,
        embedding_multiplier=config_attribute("embedding_multiplier"),
        residual_multiplier=config_attribute("residual_multiplier"),
        logit_divisor=config_attribute("logits_scaling"),
    ),
    attention=replace(llama.FAMILY.attention, scale=every_layer(config_attribute("attention_multiplier"))),
    tiny={**llama.FAMILY.tiny, "residual_multiplier": 0.3, "logits_scaling": 4.0, "embedding_multiplier": 3.0, "attention_multiplier": 0.4},
)
