"""Facts of a causal language model that has no entry, found from one traced forward pass; the identities of `ingest/model/checks.py` prove them on other text.

No name decides: a fact is a module's path, or a number, for which an equation holds at every position. One solution is taken; none or several are refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ingest.model.facts import Architecture
from ingest.model.modules import MODEL_ERRORS, ModuleMissing, tensor_of
from ingest.model.recognition.layers import find_layers
from ingest.model.recognition.stream import Traced, find_chain, find_entrance, find_head
from ingest.model.recognition.trace import Refused, Trace
from ingest.model.recognition.written_facts import write_architecture
from schema.errors import AtlasError, first_line

LENGTH = 16
"""Tokens of each of the two sequences that are traced: longer than the probe texts of the identities."""


def recognise(hf: PreTrainedModel, name: str) -> Architecture:
    """Find the facts of a model from a traced pass.

    Raises AtlasError, with the layer, the step and the nearest candidate, for a model that is not of this form. Attention computes its weights by eager code,
    and parameters are float32, for the length of the pass.
    """
    try:
        with torch.no_grad(), in_plain_arithmetic(hf):
            tokens = recognition_tokens(hf)
            return find_architecture(Traced(hf, tokens, trace_pass(hf, tokens)))
    except Refused as error:
        raise AtlasError(
            f"model {name}: model_type '{hf.config.model_type}' has no entry, and what its numbers show is not a model that can be recorded: {error}. "
            "docs/reference/adding.md says how to add an entry"
        ) from error


def trace_pass(hf: PreTrainedModel, tokens: Tensor) -> Trace:
    """Trace a forward pass. Raises Refused for an error of transformers or of torch."""
    try:
        return Trace(hf, tokens)
    except torch.OutOfMemoryError:
        raise
    except MODEL_ERRORS as error:
        raise Refused(f"a forward pass over text fails ({first_line(error)})") from error


def recognition_tokens(hf: PreTrainedModel) -> Tensor:
    """Build two sequences spread over the vocabulary, [2, LENGTH], unlike those of the probe text."""
    try:
        rows = tensor_of(hf.get_input_embeddings(), "weight")
    except (AttributeError, ModuleMissing, NotImplementedError) as error:
        raise Refused("it names no input embedding") from error
    return (torch.arange(2 * LENGTH) * 104_729 + 17).remainder(len(rows)).view(2, LENGTH).to(rows.device)


@contextmanager
def in_plain_arithmetic(hf: PreTrainedModel) -> Iterator[None]:
    """Let a model compute in float32, with eager attention, within the context."""
    model: Any = hf
    attention, dtypes = hf.config._attn_implementation, {parameter: parameter.dtype for parameter in hf.parameters()}
    try:
        model.set_attn_implementation("eager")
    except ValueError as error:
        raise Refused(f"it has no eager attention, which gives its weights ({error})") from error
    try:
        for parameter in dtypes:
            parameter.data = parameter.data.float()  # the same tensor where it is float32 already
        yield
    finally:
        for parameter, dtype in dtypes.items():
            parameter.data = parameter.data.to(dtype)
        model.set_attn_implementation(attention)


def find_architecture(traced: Traced) -> Architecture:
    bounds = [name for name in traced.numbers if "clip" in name or "clamp" in name]
    if bounds:
        raise Refused(f"{', '.join(bounds)} of its configuration bounds numbers that a short text does not show")
    chain = find_chain(traced)
    head = find_head(traced, chain.post[-1])
    entrance = find_entrance(traced, chain.pre[0], [call for call in traced.trace.calls if call.end < chain.calls[0].start])
    return write_architecture(traced, chain, head, entrance, find_layers(traced, chain))
