"""The model families that have an entry, and the choice of the one that a configuration belongs to.

Those of other causal language models are found from the model itself (`ingest/model/recognition/`).

Each family is a row of facts (`ingest/model/facts.py`): an entry of a file of `ingest/model/families/`, or of another distribution's mapping, which an entry
point names. The contract tests (tests/ingest/test_architectures.py and test_heads.py) build a small model
from each row's `tiny` arguments; they need an edit only if the family's weights have names that no other family uses.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from ingest.model.facts import Architecture
from schema.errors import AtlasError
from schema.registry import find_parts, list_folder

GROUP = "activation_atlas.architectures"
"""Group of the entry points of other distributions; each loads a mapping from model_type to Architecture."""

EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")

TRIED = frozenset(
    [
        "arcee",
        "biogpt",
        "codegen",
        "cohere",
        "cohere2",
        "cwm",
        "diffllama",
        "ernie4_5",
        "exaone4",
        "fuyu",
        "gemma3",
        "gemma4_unified_text",
        "glm",
        "glm4",
        "gpt-sw3",
        "gpt_bigcode",
        "granite_swa",
        "helium",
        "hunyuan_v1_dense",
        "hyperclovax",
        "internlm3",
        "iquestcoder",
        "jais2",
        "lfm2",
        "minicpm3",
        "ministral",
        "ministral3",
        "mpt",
        "nanochat",
        "nemotron",
        "olmo",
        "olmo3",
        "persimmon",
        "phi3",
        "seed_oss",
        "smollm3",
        "stablelm",
        "starcoder2",
        "vaultgemma",
        "youtu",
    ]
)
"""Types without an entry that are recognised in a model's files. Code of transformers that was not tried may take memory that no weight shows: state-space
models pad a text to a length that their configuration names."""

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(list_folder("ingest.model.families", "FAMILIES"))
"""The families of this distribution, by model_type."""


@cache
def architectures() -> Mapping[str, Architecture]:
    """Map each model_type to its facts, including the families of other distributions.

    Raises AtlasError if a model_type has two entries, or if an entry point does not load a mapping from model_type to Architecture.
    """
    return MappingProxyType(find_parts(GROUP, ARCHITECTURES, read_families))


def read_families(point: EntryPoint) -> Mapping[str, Architecture]:
    added = point.load()
    if not isinstance(added, Mapping) or not all(isinstance(entry, Architecture) for entry in added.values()):
        raise AtlasError(f"{point.attr} is no mapping from model_type to Architecture")
    return added


def is_mixture_of_experts(config: Mapping[str, Any]) -> bool:
    """Tell whether a configuration, as parsed JSON, describes an FFN made of experts."""
    return "moe" in str(config.get("model_type", "")) or any(config.get(name) not in (None, 0, 1) for name in EXPERT_COUNTS)


def architecture_of(config: Mapping[str, Any], name: str) -> Architecture | None:
    """Find the family's entry for a model's configuration, as parsed JSON; None for a causal language model of transformers without one.

    Raises AtlasError for any other model_type, and for a mixture of experts.
    """
    model_type = str(config.get("model_type"))
    if is_mixture_of_experts(config):
        raise AtlasError(f"model {name}: model_type '{model_type}' is a mixture of experts, which is not supported: an expert's keys see only part of the text")
    entry = architectures().get(model_type)
    if entry is None and model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise AtlasError(
            f"model {name}: model_type '{model_type}' is no causal language model of this version of transformers; "
            f"there are entries for {', '.join(sorted(architectures()))}, and others are recognised"
        )
    return entry


def tiny_config(model_type: str, **changes: object) -> PretrainedConfig:
    """Build a configuration for tests, a few thousand parameters; `changes` override its arguments."""
    return AutoConfig.for_model(model_type, **{**architectures()[model_type].tiny, **changes})
