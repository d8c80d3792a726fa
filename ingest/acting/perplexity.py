"""The cost of arms: the loss on held-out text, and how much generated text repeats itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp

import torch
from torch import Tensor

from ingest.acting.acting import apply_arms
from ingest.acting.rows import as_rows
from ingest.model.hooks import record_layers
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm
from schema.interventions.resolve import LookUp

WINDOW = 1024
"""Tokens read at once, as in the code of Geva et al. 2022."""

POSITIONS_AT_ONCE = 64
"""Positions of one row whose logits are in memory at the same time."""


@dataclass(frozen=True)
class TextLoss:
    n_tokens: int
    """Tokens that were predicted."""
    loss: float
    """Mean loss, in nats per token."""

    @property
    def perplexity(self) -> float:
        return exp(self.loss)


def windows(token_ids: Tensor, length: int, bos: int | None) -> list[Tensor]:
    """Cut a text, [n_tokens], into windows of at most `length` tokens that do not overlap. bos: the token that begins each window; None for no BOS.

    The first token of a window is not predicted. Raises AtlasError for a text with no token to predict.
    """
    first = torch.tensor([] if bos is None else [bos], dtype=token_ids.dtype)
    pieces = [torch.cat((first, piece)) for piece in token_ids.split(max(1, length - len(first)))]
    pieces = [piece for piece in pieces if len(piece) > 1]
    if not pieces:
        raise AtlasError(f"a text of {len(token_ids)} tokens was given to predict; the first token of a window is not predicted, so give at least 2")
    return pieces


def text_loss(model: Model, pieces: Sequence[Tensor], arm: Arm, look_up: LookUp, vectors: Mapping[str, Tensor]) -> TextLoss:
    """Compute an arm's loss on windows of a text; the empty arm's loss is the model's own.

    A window's prompt is its first token, so that the positions called `predicting` are the whole window.
    """
    total = sum((loss_of(model, piece, arm, look_up, vectors) for piece in pieces), torch.zeros((), dtype=torch.float64))
    n = sum(len(piece) - 1 for piece in pieces)
    return TextLoss(n, float(total) / n)


def loss_of(model: Model, piece: Tensor, arm: Arm, look_up: LookUp, vectors: Mapping[str, Tensor]) -> Tensor:
    """Sum the loss over all tokens of the piece but the first, in nats: [] float64."""
    assigned = [replace(one, n_prompt=1, rows=slice(0, 1)) for one in as_rows(model, {0: piece}, 0, [arm], look_up, vectors)]
    with apply_arms(model, assigned), torch.inference_mode():
        return nats(model, last_states(model, piece)[:-1], piece[1:])


def last_states(model: Model, piece: Tensor) -> Tensor:
    """Compute resid_post of the last layer, [seq, d_model]."""
    with record_layers(model, sites=("resid_post",)) as records:
        model.backbone(piece[None].to(model.input_device))
    return records[-1]["resid_post"][0].to(model.device)


def nats(model: Model, states: Tensor, following: Tensor) -> Tensor:
    """Sum -log p of the token that follows each state, float64."""
    found = torch.zeros((), dtype=torch.float64)
    for z, tokens in zip(states.split(POSITIONS_AT_ONCE), following.split(POSITIONS_AT_ONCE), strict=True):
        found += torch.nn.functional.cross_entropy(model.lens(z), tokens.to(model.device), reduction="none").double().sum().cpu()
    return found


def distinct_bigrams(texts: Sequence[Sequence[int]]) -> float | None:
    """Compute the share of distinct bigrams in each text of token ids, averaged over texts, in [0, 1]; None if no text has a bigram. Repetition lowers it."""
    pairs = [list(pairwise(text)) for text in texts if len(text) > 1]
    return sum(len({*bigrams}) / len(bigrams) for bigrams in pairs) / len(pairs) if pairs else None
