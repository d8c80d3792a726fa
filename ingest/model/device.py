"""Computation on a device: batches that fit in its memory, and copies to it."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.model.models import Model

T = TypeVar("T")
R = TypeVar("R")

USUAL_SEQUENCES = 8
"""Number of sequences in a batch on the CPU; a few are enough to keep it busy."""

USUAL_TOKENS = 32768
"""Number of tokens in a batch on a GPU. It is fixed, not found by timing, so that the same command always makes the same batches."""


@dataclass
class MemoryBudget:
    """Memory left on a device beside the model. n_tokens: the most tokens, padding included, that a forward pass of several sequences may have."""

    n_tokens: float = math.inf


def usual_batch(kind: str, context: int) -> int:
    """Choose how many sequences a batch has on a device of this kind, cpu or cuda, if the user gives no number."""
    return USUAL_SEQUENCES if kind == "cpu" else max(1, USUAL_TOKENS // context)


def send_to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Send the array to a device; to a GPU from pinned memory, so that the program does not wait for the copy."""
    x = torch.from_numpy(array)
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


def in_parts(model: "Model", batch: tuple[T, ...], n_tokens: Callable[[T], int], read: Callable[[tuple[T, ...]], R]) -> Iterator[R]:
    """Call `read` on a batch, or in order on parts of the batch that fit in memory, and yield its results.

    read: makes one forward pass over some items. If it raises torch.OutOfMemoryError, it is called again with the first half of the items and with the second.
    n_tokens: counts the tokens of an item. Raises AtlasError if a single item does not fit.
    """
    waiting = [batch]
    while waiting:
        part = waiting.pop()
        longest, half = max(map(n_tokens, part)), -(-len(part) // 2)
        if len(part) == 1 or len(part) * longest <= model.room.n_tokens:
            try:
                result = read(part)
            except torch.OutOfMemoryError as error:
                if len(part) == 1:
                    raise no_room(model, longest) from error
                model.room.n_tokens = half * longest
            else:
                yield result
                continue
            # only here is what the pass held let go of
            torch.cuda.empty_cache()
        waiting += [part[half:], part[:half]]


def no_room(model: "Model", n_tokens: int) -> AtlasError:
    shorter = ", --dtype bfloat16" if model.dtype == torch.float32 else ""
    return AtlasError(
        f"model {model.name}: beside the model, {model.place} has no room for one sequence of {n_tokens} tokens; "
        f"use a smaller --context{shorter} or more GPUs (--device spread)"
    )


@contextmanager
def enough_memory(device: str) -> Iterator[None]:
    """Turn torch.OutOfMemoryError into an AtlasError that suggests remedies, for code where a smaller batch would not help."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        remedy = "Use --dtype bfloat16, more GPUs (--device spread) or the processors (--device cpu)."
        raise AtlasError(f"device '{device}' is out of memory: {str(error).splitlines()[0]} {remedy}") from error
