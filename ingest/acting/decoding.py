"""Choice of each next token of a row: the likeliest token, or one that is drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from ingest.acting.draws import uniform
from schema.errors import AtlasError

Next = Callable[[Tensor | None], Tensor]
"""Function: the tokens just chosen, [rows], or None at first → logits of the next tokens, [rows, d_vocab] float32, which the caller may change."""

Adjust = Callable[[Sequence[int], Tensor], Tensor]
"""Function: all tokens of a row so far, its prompt's included, and the logits of the next token, [d_vocab] → the logits from which that token is chosen."""

OnToken = Callable[[int, int], None]
"""Callback: gets each row and token as soon as the token is chosen. An exception from it ends the generation."""


@dataclass(frozen=True)
class Decoding:
    """Rule for choosing a token.

    greedy: the likeliest token; of several equally likely tokens, the one with the lowest id. sample: a token drawn from the smallest set of likeliest tokens
    whose probabilities sum to at least top_p.
    Raises AtlasError for an unknown name, or a temperature or top_p out of range.
    """

    name: str = "greedy"
    temperature: float = 1.0
    """Number that logits are divided by before a token is drawn."""
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in ("greedy", "sample"):
            raise AtlasError(f"decoding '{self.name}' is unknown; give greedy or sample")
        if not (isfinite(self.temperature) and self.temperature > 0):
            raise AtlasError(f"a temperature of {self.temperature:g} was asked for; give one above 0, or decoding 'greedy' for the likeliest token")
        if not 0 < self.top_p <= 1:
            raise AtlasError(f"top_p of {self.top_p:g} was asked for; it must be above 0 and at most 1")


GREEDY = Decoding()


@dataclass(frozen=True)
class Generated:
    """New tokens of a row. finish: `eos` if the last new token is an EOS token, else `length`."""

    token_ids: tuple[int, ...]
    finish: str


def choose_token(logits: Tensor, decoding: Decoding, draw: float) -> int:
    """Choose a token. logits: [d_vocab], at least one of them finite. draw: a number in [0, 1); a larger number never chooses a likelier token."""
    if decoding.name == "greedy":
        return int(logits.argmax())
    probs = torch.softmax(logits.double() / decoding.temperature, dim=-1)
    # all that is rarer has less than 1 - top_p together, and need not be sorted
    candidates = torch.nonzero(probs >= (1 - decoding.top_p) / len(probs)).squeeze(-1)
    probs, order = probs[candidates].sort(descending=True, stable=True)
    total = probs.cumsum(-1)
    n = 1 + int((total < decoding.top_p).sum())
    total = total[:n]
    return int(candidates[order[: len(total)][(total <= draw * total[-1]).sum()]])


def continue_rows(
    following: Next,
    token_ids: Tensor,
    n_new: int,
    decoding: Decoding,
    seeds: Sequence[int | None],
    eos: frozenset[int],
    is_exact: bool,
    adjust: Mapping[int, Adjust],
    on_token: OnToken,
) -> list[Generated]:
    """Continue rows of equal length, [rows, seq], until each has n_new new tokens or ends in a token of `eos`; if is_exact, no token of `eos` is chosen.

    Draws depend on the row's seed and the step alone; a row whose seed is None takes the likeliest token. adjust: row → the function that adjusts its logits;
    rows may be left out. Raises AtlasError if a row's largest logit is not finite.
    """
    texts, n_prompt, ended, new = token_ids.tolist(), token_ids.shape[1], set[int](), None
    forbidden = sorted(eos) if is_exact else []
    for step in range(n_new):
        logits = following(new)
        logits[:, forbidden] = -torch.inf
        for row, text in enumerate(texts):
            if row in ended:
                continue
            of_row = adjust[row](text, logits[row]) if row in adjust else logits[row]
            if not isfinite(of_row.max()):
                raise AtlasError(f"no token can follow in row {row}, {step} tokens after its prompt: the largest logit is {float(of_row.max()):g}")
            seed = seeds[row]
            text.append(choose_token(of_row, GREEDY, 0.0) if seed is None else choose_token(of_row, decoding, uniform(seed, step)))
            if text[-1] in eos:
                ended.add(row)
            on_token(row, text[-1])
        if len(ended) == len(texts):
            break
        new = torch.tensor([text[-1] for text in texts])
    return [Generated(tuple(text[n_prompt:]), "eos" if row in ended else "length") for row, text in enumerate(texts)]
