"""GGUF files, converted once: weights as they are used and a tokenizer, kept in the user's cache, from where they load in seconds.

CACHE/weights/WEIGHTS_SHA256/      a model folder, named by the digest of its weights, which every loading computes anyhow
CACHE/weights/FILE_SHA256.float32  the name of the folder with what a GGUF file was converted to in that number format, and the digest of its other files
"""

import copy
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

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
        name, others = pointer(path, dtype).read_text(encoding="ascii").split()
        folder = weights_folder() / Path(name).name
        return folder if others_sha256(folder) == others else None
    return None


def others_sha256(folder: Path) -> str:
    """SHA-256, in hexadecimal, over the names and bytes of a model folder's files beside its weights: another base of its rotations is another model."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix != ".safetensors":
            digest.update(f"{file.name} {file.stat().st_size}\n".encode() + file.read_bytes())
    return digest.hexdigest()


@contextmanager
def parse_once() -> Iterator[None]:
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

    ours = {"GGUFReader": cache(Reader), "get_tensor_name_map": cache(gguf.get_tensor_name_map)}
    theirs = {name: getattr(gguf, name) for name in ours}
    vars(gguf).update(ours)
    try:
        yield
    finally:
        vars(gguf).update(theirs)


def keep(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, weights_sha256: str, path: Path, dtype: str) -> None:
    """Write what a GGUF file was converted to. A folder appears whole or not at all; where it cannot be written, the next loading takes as long as this."""
    with suppress(OSError):
        parent = weights_folder()
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=parent, prefix=".new-") as new:
            model, name, folder = Path(new) / "model", Path(new) / "name", parent / weights_sha256
            write_model(hf, tokenizer, model)
            others = others_sha256(model)
            name.write_text(f"{weights_sha256} {others}", encoding="ascii")
            # another process may have been first; what is damaged goes
            if folder.is_dir() and others_sha256(folder) != others:
                shutil.rmtree(folder)
            with suppress(OSError):
                model.rename(folder)
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
