"""How many layers a configuration speaks of, beside those that there are weights for.

transformers makes every layer before it looks for its weights, and lists them before it makes one: a number that is wrong would cost minutes, or all memory.
"""

import json
import re
from pathlib import Path
from typing import Any

from safetensors import safe_open
from transformers import CONFIG_MAPPING

from ingest.model.sources import Source, reading
from schema.errors import AtlasError

MOST_LAYERS = 2**15
"""An atlas numbers layers from 0 with a SMALLINT."""


def said_layers(source: Source) -> int:
    """By the configuration; 0 where it names no whole number, which transformers has its own words for."""
    with reading("config.json", source.name):
        kind: Any = CONFIG_MAPPING[source.config["model_type"]]
    names = {"num_hidden_layers", kind.attribute_map.get("num_hidden_layers", "num_hidden_layers")}
    return max((n for name in names if isinstance(n := source.config.get(name), int)), default=0)


def stored_layers(source: Source, layers: str) -> int | None:
    """Those in a folder's safetensors; None where their names are not known before everything is read. layers: path of the blocks from the backbone."""
    if source.commit is not None or source.gguf_file is not None:
        return None
    whole, index = (Path(source.location) / name for name in ("model.safetensors", "model.safetensors.index.json"))
    with reading("weights", source.name):
        if whole.is_file():
            with safe_open(whole, framework="pt") as file:
                names = list(file.keys())
        elif index.is_file():
            names = list(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        else:
            return None
    of_layers = re.compile(rf"(?:^|\.){re.escape(layers)}\.(\d+)\.")
    return max((int(found[1]) + 1 for name in names if (found := of_layers.search(name))), default=None)


def require_layers(source: Source, layers: str) -> None:
    """AtlasError for a configuration of more layers than an atlas can number, or than there are weights for."""
    n = said_layers(source)
    if n > MOST_LAYERS:
        raise AtlasError(f"model {source.name}: its config.json says {n:,} layers, and an atlas holds {MOST_LAYERS:,} at most; is it that of its weights?")
    stored = stored_layers(source, layers)
    if stored is not None and n > stored:
        raise AtlasError(f"model {source.name}: its config.json says {n:,} layers, and its weights hold {stored:,}: they do not fit each other")
