"""Whether a text's numbers depend on the texts that are read beside it.

A model may choose something by the longest sequence of a batch, as RoPE of the types longrope and dynamic do. Such a model is read one text at a time.
"""

import torch
from torch import Tensor

from ingest.model.checks import SLACK, TOLERANCE, relative_error, said_of
from ingest.model.hooks import LayerRecord, Listener, listen
from ingest.model.models import Model

SHORT = 12
"""Tokens of a text that is short."""


def neighbour_error(model: Model, context: int) -> float:
    """Largest relative error over positions of the last resid_post of a short text and of one as long as the context, read together and each alone.

    context: tokens, at most the model's own. 0 where there is no text longer than the short one.
    """
    length = context if model.max_context is None else min(context, model.max_context)
    if length <= SHORT:
        return 0.0
    n_tokens = min(model.d_vocab, len(model.tokenizer))
    tokens = (torch.arange(2 * length) * 7919 + 1).remainder(n_tokens).view(2, length)
    together = last_states(model, tokens)
    alone = (last_states(model, tokens[:1, :SHORT]), last_states(model, tokens[1:]))
    return max(relative_error(together[:1, :SHORT], alone[0]), relative_error(together[1:], alone[1]))


def last_states(model: Model, tokens: Tensor) -> Tensor:
    """resid_post of the last layer, [batch, seq, d_model]."""
    found: list[Tensor] = []

    def take(layer: int, record: LayerRecord) -> None:
        if layer == model.n_layers - 1:
            found.append(record["resid_post"].float())

    with said_of(model), listen(model, [Listener(frozenset({"resid_post"}), take)]):
        model.backbone(tokens)
    return found[0]


def reads_alike(model: Model, context: int) -> bool:
    """Whether texts of up to `context` tokens are read beside others as they are alone, within what rounding allows."""
    return neighbour_error(model, context) <= TOLERANCE[model.dtype] * (1 if model.dtype == torch.float32 else SLACK)
