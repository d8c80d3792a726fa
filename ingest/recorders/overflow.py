"""Search for the place where a model's numbers leave the range of its dtype. For this, texts are read again, one sequence after the other."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ingest.model.device import send_to_device
from ingest.model.hooks import LayerRecord, Listener, listen
from ingest.model.models import Model
from ingest.text.sequences import CutDocument, Sequence
from ingest.workers.finite import NotFinite

SITES = frozenset({"attn_out", "coefficient", "resid_post"})
"""Sites where a layer may overflow first: the update of attention, a coefficient, or the stream after both parts have added to it."""


@contextmanager
def locate_overflow(model: Model, documents: Iterable[CutDocument]) -> Iterator[None]:
    """Raise a NotFinite of the `with` block again, with the place where the overflow begins and advice added to its message."""
    try:
        yield
    except NotFinite as error:
        raise NotFinite(f"{error}. {overflow_sentence(model, documents)}{advise(model)}") from error


def overflow_sentence(model: Model, documents: Iterable[CutDocument]) -> str:
    """Name, in a sentence, the first document, layer and token with a number that is not finite; '' if every state is finite."""
    for document in documents:
        for sequence in document.sequences:
            if found := first_place(model, sequence):
                layer, index = found
                token = model.tokenizer.decode([int(sequence.token_ids[index])])
                return (
                    f"It begins in layer {layer} at token {index} {token!r} of its sequence (position_id {sequence.first_position_id + index}), "
                    f"in document {document.document.name}. "
                )
    return ""


def first_place(model: Model, sequence: Sequence) -> tuple[int, int] | None:
    """Find the first layer with a number that is not finite, and the first place in the sequence with such a number there; None if all are finite."""
    found: list[tuple[int, int]] = []

    def take(layer: int, record: LayerRecord) -> None:
        if not found:
            found.extend((layer, int(index)) for index in bad_rows([record[site] for site in SITES])[:1])

    with torch.inference_mode(), listen(model, [Listener(SITES, take)]):
        model.backbone(send_to_device(sequence.token_ids[None].astype("int64"), model.input_device))
    return found[0] if found else None


def bad_rows(states: list[Tensor]) -> Tensor:
    """Find the places of a sequence at which any of these states, [1, seq, width] each, has a number that is not finite."""
    return torch.stack([(~torch.isfinite(state[0])).any(-1).cpu() for state in states]).any(0).nonzero()[:, 0]


def advise(model: Model) -> str:
    """Write advice that depends on the model's dtype."""
    if model.dtype is torch.float16:
        return f"float16 holds no number above {torch.finfo(torch.float16).max:,.0f}: run again with --dtype bfloat16 or --dtype float32"
    return f"The model's weights or its configuration make numbers that {str(model.dtype).removeprefix('torch.')} does not hold"
