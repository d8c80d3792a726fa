"""Eager attention, which returns the attention weights. The default of transformers (sdpa) silently returns None in their place."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from ingest.model.models import Model
from schema.errors import AtlasError

EAGER = "eager"


@contextmanager
def use_eager_attention(model: Model) -> Iterator[None]:
    """Make the model's attention return its weights within the context, and restore the previous setting however the context ends.

    Families that have only eager attention (BLOOM, Gemma 2, GPT-Neo, GPT-J) are left as they are. A layer needs memory for about two arrays of
    [batch, n_heads, seq, seq].
    """
    hf: Any = model.hf
    before = hf.config._attn_implementation
    if before == EAGER:
        yield
        return
    hf.set_attn_implementation(EAGER)
    try:
        yield
    finally:
        hf.set_attn_implementation(before)


def weights_of(model: Model, layer: int, output: Any, shape: tuple[int, ...]) -> Tensor:
    """Find the attention weights [batch, n_heads, seq, seq] in the output of a layer's attention module.

    shape: batch and seq. Raises AtlasError if the output does not contain them.
    """
    found = output[1] if isinstance(output, tuple) and len(output) > 1 else None
    batch, seq = shape
    expected = (batch, model.n_heads, seq, seq)
    if not isinstance(found, Tensor) or tuple(found.shape) != expected:
        said = f"of shape {list(found.shape)}" if isinstance(found, Tensor) else "none"
        path = f"{model.layer_path(layer)}.{model.attention(layer).module}"
        raise AtlasError(f"model {model.name}: {path} gives {said} where attention weights of shape {list(expected)} should be")
    return found
