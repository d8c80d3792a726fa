"""Granite: Llama with multipliers of the embedding, the scores, the updates and the logits."""

from dataclasses import replace

from ingest.model.facts import every_layer, of
from ingest.model.families import llama

FAMILY = replace(
    llama.FAMILY,
    stream=replace(
        llama.FAMILY.stream,
        embedding_multiplier=of("embedding_multiplier"),
        residual_multiplier=of("residual_multiplier"),
        logit_divisor=of("logits_scaling"),
    ),
    attention=replace(llama.FAMILY.attention, scale=every_layer(of("attention_multiplier"))),
    tiny={**llama.FAMILY.tiny, "residual_multiplier": 0.3, "logits_scaling": 4.0, "embedding_multiplier": 3.0, "attention_multiplier": 0.4},
)
