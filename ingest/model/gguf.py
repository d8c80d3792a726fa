"""GGUF files, converted once: weights as they are used and a tokenizer, kept in the user's cache, from where they load in seconds.

CACHE/weights/WEIGHTS_SHA256/      a model folder, named by the digest of its weights, which every loading computes anyhow
CACHE/weights/FILE_SHA256.float32  the name of the folder with what a GGUF file was converted to in that number format
"""

import copy
import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from schema.definitions import cache_folder


def weights_folder() -> Path:
    return cache_folder() / "weights"


def pointer(path: Path, dtype: str) -> Path:
    """Where the cache names the folder that a GGUF file was converted to."""
    with path.open("rb") as file:
        return weights_folder() / f"{hashlib.file_digest(file, 'sha256').hexdigest()}.{dtype}"


def kept_folder(path: Path, dtype: str) -> Path | None:
    """The model folder that a GGUF file was converted to, if the cache has it."""
    with suppress(OSError, ValueError):
        name = pointer(path, dtype).read_text(encoding="ascii")
        folder = weights_folder() / Path(name).name
        return folder if (folder / "config.json").is_file() else None
    return None


@contextmanager
def parsed_once() -> Iterator[None]:
    """Make transformers parse the header of a GGUF file once, and without a memmap for each of its 100,000 strings; it does so three times else, and asks
    for the names of all tensors again for each module."""
    import gguf

    class Reader(gguf.GGUFReader):
        @property  # type: ignore[override]
        def data(self) -> np.ndarray:
            return self._plain

        @data.setter
        def data(self, mapped: np.memmap) -> None:
            self._plain = mapped.view(np.ndarray)

    with patch.object(gguf, "GGUFReader", cache(Reader)), patch.object(gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map)):
        yield


def keep(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, weights_sha256: str, path: Path, dtype: str) -> None:
    """Write what a GGUF file was converted to. A folder appears whole or not at all; where it cannot be written, the next loading takes as long as this."""
    with suppress(OSError):
        parent = weights_folder()
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=parent, prefix=".new-") as new:
            write_model(hf, tokenizer, Path(new) / "model")
            name = Path(new) / "name"
            name.write_text(weights_sha256, encoding="ascii")
            with suppress(OSError):
                # another process may have been first
                (Path(new) / "model").rename(parent / weights_sha256)
            name.rename(pointer(path, dtype))


def write_model(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    config = copy.deepcopy(hf.config)
    # transformers does not save what it dequantised: a fresh model takes the weights, and says nothing of how they came
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        fresh: Any = type(hf)(config)
    fresh.load_state_dict(hf.state_dict(), assign=True)
    fresh.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
