"""Checks that a configuration fits its weights, before a model is made from it: a model folder may come from an untrusted source.

transformers makes every layer and table that a configuration names before it looks for the weights: one wrong number could cost minutes, or all the memory.
Here the model is made on the meta device, where it takes no memory, and compared with the metadata in the files of the weights.
"""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import CONFIG_MAPPING

from ingest.model.loading import WEIGHTS, meta_model, misfits
from ingest.model.pickles import check_pickle
from ingest.model.sources import Source, Unreadable, reading
from schema.errors import AtlasError

MOST_LAYERS = 2**15
"""Most layers of a model: an atlas stores the number of a layer, from 0, as a SMALLINT."""

FEWEST_LAYER_BYTES = 256
"""Smallest size of a layer's weights in a file, their names included."""

MOST_LABELS = 10_000
"""Most labels of a classifier; transformers lists them one by one for every model."""

MOST_PER_BYTE = {".gguf": 8}
"""Suffix of a file → most numbers that one of its bytes can hold: a number takes at least one bit in a quantised file, and at least one byte in other files."""

MOST_TABLE_BYTES = 1 << 30
"""Most bytes of causal masks and position tables, which are in no file; the 28 layers of GPT-J need an eighth of this."""

MOST_INDEX_BYTES = 32 << 20

MOST_TENSORS = 1 << 17
"""Most tensors of a file; a model of 126 layers has a hundredth of this."""


@dataclass(frozen=True)
class Stored:
    """Weights as stored on disk.

    n_bytes: of all files together. n_numbers: the most numbers that the files can hold. shapes: by tensor name, from safetensors files; None without them.
    """

    n_bytes: int
    n_numbers: int
    shapes: Mapping[str, list[int]] | None


def require_fit(source: Source, layers: str | None) -> None:
    """Raise AtlasError for a configuration that needs more weights than the files hold, or weights of other shapes.

    layers: path of the blocks from the backbone; None if it is not known. For a model on the hub only the configuration itself is checked: its weights are not
    fetched yet.
    """
    require_few(source)
    if source.commit is not None:
        return
    stored = find_stored(source)
    n, n_stored = said_layers(source), stored_layers(stored, layers)
    if n > n_stored:
        raise AtlasError(f"model {source.name}: its config.json says {n:,} layers, and its weights hold {n_stored:,}: they do not fit each other")
    require_sizes(source, stored)


def require_few(source: Source) -> None:
    """Raise AtlasError for more than MOST_LAYERS layers or MOST_LABELS labels: transformers lists both before it makes a layer."""
    n = said_layers(source)
    if n > MOST_LAYERS:
        raise AtlasError(f"model {source.name}: its config.json says {n:,} layers, and an atlas holds {MOST_LAYERS:,} at most; is it the right config.json?")
    labels = source.config.get("num_labels")
    if isinstance(labels, int) and labels > MOST_LABELS:
        raise AtlasError(f"model {source.name}: its config.json says {labels:,} labels, and {MOST_LABELS:,} are read at most; remove num_labels from it")


def said_layers(source: Source) -> int:
    """Read the most layers that the configuration or a part of it, such as that of a tower for images, says.

    0 if it names no whole number, for which transformers raises an error of its own.
    """
    with reading("config.json", source.name):
        kind: Any = CONFIG_MAPPING[source.config["model_type"]]
    names = {"num_hidden_layers", kind.attribute_map.get("num_hidden_layers", "num_hidden_layers")}
    parts = [source.config, *(part for part in source.config.values() if isinstance(part, dict))]
    said = [n for part in parts for name in names if isinstance(n := part.get(name), int)]
    # gpt_neo: [[["global", "local"], 12]] is 24 layers
    with suppress(TypeError, ValueError):
        said += [sum(len(kinds) * n for kinds, n in source.config.get("attention_types", ()))]
    return max(said, default=0)


def weight_files(source: Source) -> list[Path]:
    """List the files of a local model's weights, in no particular order.

    Raises AtlasError if no weights can be read, and if an index names something that is not a file of the model's folder.
    """
    folder = Path(source.location)
    if source.gguf_file is not None:
        return [folder / source.gguf_file]
    found = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if found is None:
        broken = [name for name in WEIGHTS if (folder / name).exists() or (folder / name).is_symlink()]
        why = f"{broken[0]} is no file, or a link that leads nowhere" if broken else f"there is no {' or '.join(WEIGHTS)}"
        raise Unreadable(f"model {source.name}: no weights in {folder}: {why}")
    if not os.access(found, os.R_OK):
        raise AtlasError(f"model {source.name}: no permission to read {found}")
    if found.suffix != ".json":
        return [found]
    with reading("weights", source.name):
        if found.stat().st_size > MOST_INDEX_BYTES:
            raise ValueError(f"{found.name} has {found.stat().st_size:,} bytes, and an index has {MOST_INDEX_BYTES:,} at most")
        names = sorted(set(json.loads(found.read_text(encoding="utf-8"))["weight_map"].values()))
    for name in names:
        if name != Path(name).name or not (folder / name).is_file():
            raise Unreadable(f"model {source.name}: {found.name} names {name[:100]!r}, which is no file of the model's folder")
    return [folder / name for name in names]


def find_stored(source: Source) -> Stored:
    """Read the sizes of a local model's weight files, and the tensor shapes in safetensors files, without reading the weights.

    Raises AtlasError as `weight_files` does, and for a pickle that holds anything but weights.
    """
    files, shapes = weight_files(source), dict[str, list[int]]()
    for path in files:
        with reading("weights", source.name):
            if path.suffix == ".safetensors":
                with safe_open(path, framework="pt") as file:
                    names = list(file.keys())
                    if len(names) > MOST_TENSORS:
                        raise ValueError(f"{path.name} names {len(names):,} tensors, and {MOST_TENSORS:,} are read at most")
                    shapes |= {name: file.get_slice(name).get_shape() for name in names}
            elif path.suffix != ".gguf":
                check_pickle(path)
    sizes = {path: path.stat().st_size for path in files}
    n_numbers = sum(n * MOST_PER_BYTE.get(path.suffix, 1) for path, n in sizes.items())
    return Stored(sum(sizes.values()), n_numbers, shapes or None)


def stored_layers(stored: Stored, layers: str | None) -> int:
    """Count the layers by the names of the weights; without such names, count the most layers that the files have room for.

    Where the path of the blocks is not known, the longest of all lists is counted.
    """
    path = "" if layers is None else rf"{re.escape(layers)}\."
    of_layers = re.compile(rf"(?:^|\.){path}(\d+)\.")
    named = [int(n) + 1 for name in stored.shapes or () for n in of_layers.findall(name)]
    return max(named, default=stored.n_bytes // FEWEST_LAYER_BYTES)


def require_sizes(source: Source, stored: Stored) -> None:
    """Raise AtlasError if the configuration gives weights other shapes than the files, or more weights than they can hold, or far too large tables."""
    hf = meta_model(source, torch.float32)
    prefix = f"{hf.base_model_prefix}."
    there = {name.removeprefix(prefix): shape for name, shape in (stored.shapes or {}).items()}
    asked = ((name, list(parameter.shape)) for name, parameter in hf.named_parameters())
    wrong = [(name, found, shape) for name, shape in asked if (found := there.get(name.removeprefix(prefix), shape)) != shape]
    if wrong:
        said = misfits({"missing_keys": (), "unexpected_keys": (), "mismatched_keys": wrong})
        raise Unreadable(f"model {source.name}: its weights do not fit model_type '{source.config['model_type']}': {said}")
    n = sum(parameter.numel() for parameter in hf.parameters())
    if n > stored.n_numbers:
        raise Unreadable(
            f"model {source.name}: its config.json describes {n:,} weights, and its weight files have {stored.n_bytes:,} bytes: they do not fit each other"
        )
    n_table = sum(table.numel() * table.element_size() for table in hf.buffers())
    if n_table > max(MOST_TABLE_BYTES, stored.n_bytes):
        raise AtlasError(
            f"model {source.name}: by its config.json, masks and position tables take {n_table:,} bytes, and its weights {stored.n_bytes:,}; "
            "is its longest context right (max_position_embeddings)?"
        )
