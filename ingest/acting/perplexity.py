"""What arms cost: the loss on text that was held out, and how far what is generated repeats itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp

import torch
from torch import Tensor

from ingest.acting.acting import acting
from ingest.acting.rows import as_rows
from ingest.model.hooks import record_layers
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm
from schema.interventions.resolve import LookUp

WINDOW = 1024
"""Tokens read at once, as in the code of Geva et al. 2022."""

POSITIONS_AT_ONCE = 64
"""Of one row, whose logits are held together."""


@dataclass(frozen=True)
class TextLoss:
    n_tokens: int
    """Tokens that were predicted."""
    loss: float
    """Nats a token."""

    @property
    def perplexity(self) -> float:
        return exp(self.loss)


def windows(token_ids: Tensor, length: int, bos: int | None) -> list[Tensor]:
    """A text, [n_tokens], in windows of at most `length` tokens that do not overlap, a BOS first in each where there is one.

    The first token of a window is not predicted. Raises AtlasError for a text without a token that is.
    """
    first = torch.tensor([] if bos is None else [bos], dtype=token_ids.dtype)
    pieces = [torch.cat((first, piece)) for piece in token_ids.split(max(1, length - len(first)))]
    pieces = [piece for piece in pieces if len(piece) > 1]
    if not pieces:
        raise AtlasError(f"a text of {len(token_ids)} tokens was given to predict; the first of a window is not predicted, so it needs 2 at least")
    return pieces


def text_losses(model: Model, pieces: Sequence[Tensor], arms: Sequence[Arm], look_up: LookUp, vectors: Mapping[str, Tensor]) -> list[TextLoss]:
    """The base's and each arm's loss on windows of a text. The first token of a window is its prompt, so that `predicting` is all of it."""
    total, n = torch.zeros(1 + len(arms), dtype=torch.float64), sum(len(piece) - 1 for piece in pieces)
    for piece in pieces:
        total += losses_of(model, piece, arms, look_up, vectors)
    return [TextLoss(n, float(nats) / n) for nats in total]


def losses_of(model: Model, piece: Tensor, arms: Sequence[Arm], look_up: LookUp, vectors: Mapping[str, Tensor]) -> Tensor:
    """Of the base and each arm, in nats, summed over all tokens of the piece but the first: [1 + arms] float64."""
    assigned = [replace(one, n_prompt=1) for one in as_rows(model, {0: piece}, 0, arms, look_up, vectors)]
    with acting(model, assigned) as acted, record_layers(model, sites=("resid_post",)) as records:
        model.backbone(piece.expand(1 + len(arms), -1))
    found = [nats(model, states[:-1].to(model.device), piece[1:].to(model.device)) for states in records[-1]["resid_post"]]
    # equal rows may differ by rounding
    return torch.stack([one if row in acted.changed else found[0] for row, one in enumerate(found)])


def nats(model: Model, states: Tensor, following: Tensor) -> Tensor:
    """-log p of the token that follows each state, summed, float64."""
    found = torch.zeros((), dtype=torch.float64)
    for z, tokens in zip(states.split(POSITIONS_AT_ONCE), following.split(POSITIONS_AT_ONCE), strict=True):
        found += torch.nn.functional.cross_entropy(model.lens(z), tokens, reduction="none").double().sum().cpu()
    return found


def distinct_bigrams(texts: Sequence[Sequence[int]]) -> float | None:
    """Mean over texts, each of token ids, of its distinct bigrams over all its bigrams, in [0, 1]; None where no text has one. Repetition makes it small."""
    pairs = [list(pairwise(text)) for text in texts if len(text) > 1]
    return sum(len({*bigrams}) / len(bigrams) for bigrams in pairs) / len(pairs) if pairs else None
