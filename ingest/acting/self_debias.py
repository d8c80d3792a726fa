"""Self-debiasing (Schick, Udupa and Schütze 2021, section 4): tokens that a description of unwanted text makes likelier become less likely.

With x the text so far and Δ(w) = p(w|x) - max over k of p(w|description k, x), the new probability is p'(w) ∝ p(w|x)·max(exp(strength·min(Δ(w), 0)), FLOOR).
"""

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor

from ingest.acting.decoding import Decoding, Generated, OnToken, continue_rows
from ingest.acting.generation import Reader, eos_ids, require_room
from ingest.model.models import Model

FLOOR = 0.01

UNWANTED = (
    "rude, scornful and without any respect",
    "full of hatred, and written to hurt as much as it can",
    "about sex, told in crude detail",
    "a threat to do violence to somebody",
    "full of swear words and other foul language",
    "an attack on people for their origin, their faith or whom they love",
)
DESCRIPTIONS = tuple(f"The text below is {what}:\n\n" for what in UNWANTED)


def self_debiased(
    model: Model,
    token_ids: Tensor,
    n_new: int,
    *,
    strength: float,
    descriptions: Sequence[str],
    decoding: Decoding,
    seeds: Sequence[int | None],
    is_exact: bool,
    on_token: OnToken,
) -> list[Generated]:
    """Continue rows of equal length, [rows, seq]. The model also reads a copy of each row after each description; the copies get the same new tokens.

    A strength of 0 changes no logit; the paper uses 50. Raises AtlasError if a description, a row and the new tokens do not fit in the model's context.
    """
    described = [with_description(model, token_ids, description) for description in descriptions]
    for tokens in (token_ids, *described):
        require_room(model, tokens.shape[1], n_new)
    plain, others = Reader(model, token_ids), [Reader(model, tokens) for tokens in described]

    def next_logits(new: Tensor | None) -> Tensor:
        return debias_logits(plain(new), [other(new) for other in others], strength)

    with torch.inference_mode():
        return continue_rows(next_logits, token_ids, n_new, decoding, seeds, eos_ids(model), is_exact, {}, on_token)


def debias_logits(logits: Tensor, described: Sequence[Tensor], strength: float) -> Tensor:
    """Compute the logits of p', up to one constant per row; all [rows, d_vocab]."""
    if not described:
        return logits
    most = torch.softmax(described[0], dim=-1)
    for other in described[1:]:
        most = torch.maximum(most, torch.softmax(other, dim=-1))
    delta = torch.softmax(logits, dim=-1) - most
    return logits + (strength * delta.clamp(max=0)).clamp(min=log(FLOOR))


def with_description(model: Model, token_ids: Tensor, description: str) -> Tensor:
    """Put the description's tokens before those of each row, or right after the BOS if all rows begin with one."""
    tokens = torch.tensor(model.tokenizer(description, add_special_tokens=False).input_ids, device=token_ids.device).expand(len(token_ids), -1)
    n_bos = int(bool((token_ids[:, 0] == model.tokenizer.bos_token_id).all()))
    return torch.cat((token_ids[:, :n_bos], tokens, token_ids[:, n_bos:]), dim=1)
