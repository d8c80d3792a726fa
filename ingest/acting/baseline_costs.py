"""What ways to write cost that change logits and no forward pass: their loss on the text on which arms are read."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ingest.acting.perplexity import POSITIONS_AT_ONCE, TextLoss, last_states
from ingest.acting.self_debias import debias_logits, with_description
from ingest.acting.word_filter import Forms, word_filter
from ingest.model.models import Model
from schema.errors import AtlasError

Logits = Callable[[slice], Tensor]
"""Positions of a window that are read → logits of what follows, [positions, d_vocab]."""


def filtered_loss(model: Model, pieces: Sequence[Tensor], forms: Forms) -> TextLoss:
    """Over the tokens that the filter does not forbid: of one that it does the loss is infinite. Windows of a text as in `text_losses`."""
    adjust = word_filter(forms)

    def filtered_nats(piece: Tensor) -> Tensor:
        text, plain = piece.tolist(), states(model, piece)

        def logits(at: slice) -> Tensor:
            return torch.stack([adjust(text[: at.start + i + 1], row) for i, row in enumerate(model.lens(plain[at]))])

        return nats(logits, piece)

    return loss([filtered_nats(piece) for piece in pieces])


def debiased_loss(model: Model, pieces: Sequence[Tensor], strength: float, descriptions: Sequence[str]) -> TextLoss:
    """With the distribution that self-debiasing draws from. Windows of a text as in `text_losses`; a description must fit before them."""

    def debiased_nats(piece: Tensor) -> Tensor:
        plain = states(model, piece)
        others = [states(model, with_description(model, piece[None], one)[0])[-len(piece) :] for one in descriptions]
        return nats(lambda at: debias_logits(model.lens(plain[at]), [model.lens(other[at]) for other in others], strength), piece)

    return loss([debiased_nats(piece) for piece in pieces])


def states(model: Model, tokens: Tensor) -> Tensor:
    """resid_post of the last layer, [seq, d_model]. AtlasError for more tokens than the model reads."""
    if model.max_context is not None and len(tokens) > model.max_context:
        raise AtlasError(f"model {model.name} reads {model.max_context} tokens, and not {len(tokens)}")
    with torch.inference_mode():
        return last_states(model, tokens)


def nats(logits: Logits, piece: Tensor) -> Tensor:
    """-log p of each token of a window but the first, float64."""
    found = []
    for start in range(0, len(piece) - 1, POSITIONS_AT_ONCE):
        at = slice(start, min(start + POSITIONS_AT_ONCE, len(piece) - 1))
        log_p = torch.log_softmax(logits(at).double(), dim=-1).cpu()
        found.append(-log_p.gather(1, piece[at.start + 1 : at.stop + 1, None])[:, 0])
    return torch.cat(found)


def loss(found: Sequence[Tensor]) -> TextLoss:
    """AtlasError where no token is allowed."""
    finite = (every := torch.cat(list(found)))[every.isfinite()]
    if not len(finite):
        raise AtlasError("the filter forbids every token of the text that is to be predicted")
    return TextLoss(len(finite), float(finite.mean()))
