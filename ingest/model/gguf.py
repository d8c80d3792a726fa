"""Models converted from GGUF files: each file is converted once, and its weights and tokenizer are saved in the user's cache, where they load in seconds.

CACHE/weights/FILE_SHA256.float32/   the model folder that a GGUF file was converted to, in that number format
                        …/DIGESTS    the SHA-256 of its weights, the SHA-256 of its other files, and the version of transformers that converted them
"""

import copy
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import SafetensorError
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from schema.open.definitions import cache_folder

DIGESTS, DRAFT = "DIGESTS", ".new-"

MOST_VALUES = 3 << 19
"""Maximum number of values in a GGUF file's header: a vocabulary of 262,144 tokens, with scores, kinds and merges, has 1.3 million."""

DAY = 24 * 60 * 60
"""Age in seconds beyond which a draft counts as abandoned."""


def weights_folder() -> Path:
    return cache_folder() / "weights"


def place_of(path: Path, dtype: str) -> Path:
    """Name the cache folder for the model converted from a GGUF file.

    The name has the SHA-256 of the whole file, not of its weights: two files with the same weights may be read differently.
    """
    with path.open("rb") as file:
        return weights_folder() / f"{hashlib.file_digest(file, 'sha256').hexdigest()}.{dtype}"


def kept_folder(path: Path, dtype: str) -> Path | None:
    """Find the cached folder that a GGUF file was converted to; None if there is no valid one."""
    with suppress(OSError):
        folder = place_of(path, dtype)
        return folder if kept_sha256(folder) is not None else None
    return None


def kept_sha256(folder: Path, wanted: str | None = None) -> str | None:
    """Read the SHA-256 of a cached model's weights from its DIGESTS; None if its other files have changed since, or another version of transformers wrote it.

    wanted: if the SHA-256 in DIGESTS differs from this, return None without reading the files.
    """
    with suppress(OSError, ValueError):
        weights, others, version = (folder / DIGESTS).read_text(encoding="ascii").split()
        if wanted not in (None, weights):
            return None
        return weights if not folder.is_symlink() and (others, version) == (others_sha256(folder), transformers.__version__) else None
    return None


def find_folder_of_weights(weights_sha256: str) -> Path | None:
    """Find a folder of the cache with these weights, whichever file they came from; None if there is none."""
    with suppress(OSError):
        return next((folder for folder in sorted(weights_folder().iterdir()) if kept_sha256(folder, weights_sha256)), None)
    return None


def others_sha256(folder: Path) -> str:
    """Compute the SHA-256, in hexadecimal, over the names and bytes of a model folder's files beside its weights.

    Those files are part of the model: another RoPE base in config.json, for example, makes another model.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix != ".safetensors" and file.name != DIGESTS:
            digest.update(f"{file.name} {file.stat().st_size}\n".encode() + file.read_bytes())
    return digest.hexdigest()


@contextmanager
def parse_once() -> Iterator[None]:
    """Make transformers parse the header of a GGUF file once, without a memmap for each of its 100,000 strings.

    Without this, transformers parses the header three times, and builds the map of tensor names again for each module.
    """
    import gguf

    class Reader(gguf.GGUFReader):
        n_values = 0

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list, list, list]:
            # an array is read value by value, each of its strings as a call of this
            self.n_values += 1
            if self.n_values > MOST_VALUES:
                raise ValueError(f"it holds more than {MOST_VALUES:,} values beside its weights")
            found: tuple[int, list, list, list] = super()._get_field_parts(orig_offs, raw_type)
            return found

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


def keep_converted_model(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, weights_sha256: str, path: Path, dtype: str) -> None:
    """Save the model that a GGUF file was converted to, and replace a damaged copy of it.

    The folder appears whole or not at all. If it cannot be written, no error is raised, and the next load takes as long as this one.
    """
    # a disk without room is either's
    with suppress(OSError, SafetensorError):
        parent, folder = weights_folder(), place_of(path, dtype)
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.glob(f"{DRAFT}*"):
            if time.time() - left.stat().st_mtime > DAY:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=parent, prefix=DRAFT) as new:
            model = Path(new) / "model"
            write_model(hf, tokenizer, model)
            (model / DIGESTS).write_text(f"{weights_sha256} {others_sha256(model)} {transformers.__version__}", encoding="ascii")
            if kept_sha256(folder) != weights_sha256:
                shutil.rmtree(folder, ignore_errors=True)
                if folder.is_file() or folder.is_symlink():
                    folder.unlink()
            # unless another process was first
            model.rename(folder)


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
