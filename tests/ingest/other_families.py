"""A model family as another distribution would add it: its entry point names `FAMILIES`, and no file of the packages knows it."""

from dataclasses import replace

from ingest.model.facts import SMALL, config_attribute
from ingest.model.families.llama import LLAMA

FAMILIES = {
    "stablelm": replace(
        LLAMA,
        stream=replace(LLAMA.stream, is_parallel=config_attribute("use_parallel_residual")),
        tiny={**SMALL, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1, "use_qkv_bias": True, "partial_rotary_factor": 0.5},
    )
}
