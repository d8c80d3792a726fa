"""Attention that gives its weights: what transformers computes by itself (sdpa) says None for them, and says so silently."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from ingest.model.models import Model
from schema.errors import AtlasError

EAGER = "eager"


@contextmanager
def use_eager_attention(model: Model) -> Iterator[None]:
    """Let the model's attention give its weights for the length of the context; what it was set to comes back however the context ends.

    Families without another code (BLOOM, Gemma 2, GPT-Neo, GPT-J) are left as they are. A layer then holds [batch, n_heads, seq, seq] about twice.
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
    """Find the attention weights [batch, n_heads, seq, seq] in what a layer's attention module gives.

    shape: batch and seq. Raises AtlasError if they are not there.
    """
    found = output[1] if isinstance(output, tuple) and len(output) > 1 else None
    batch, seq = shape
    expected = (batch, model.n_heads, seq, seq)
    if not isinstance(found, Tensor) or tuple(found.shape) != expected:
        said = f"of shape {list(found.shape)}" if isinstance(found, Tensor) else "none"
        path = f"{model.layer_path(layer)}.{model.architecture.attention.module}"
        raise AtlasError(f"model {model.name}: {path} gives {said} where attention weights of shape {list(expected)} should be")
    return found
