"""Gemma: Llama with norms that multiply by 1 + weight, and token rows times √d_model."""

from dataclasses import replace

from transformers import PretrainedConfig

from ingest.model.families import llama


def root_of_d_model(config: PretrainedConfig) -> float:
    return config.hidden_size**0.5


def objection(config: PretrainedConfig) -> str | None:
    return "use_bidirectional_attention: it is no causal language model" if config.use_bidirectional_attention else None


FAMILY = replace(
    llama.FAMILY,
    stream=replace(llama.FAMILY.stream, embedding_multiplier=root_of_d_model),
    norm_gain_offset=1.0,
    objection=objection,
    tiny={**llama.TINY, "head_dim": 8, "attention_bias": True},
)
