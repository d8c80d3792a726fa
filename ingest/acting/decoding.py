"""Which token a row goes on with: the likeliest, or one that is drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from ingest.acting.draws import uniform
from schema.errors import AtlasError

Next = Callable[[Tensor | None], Tensor]
"""Tokens that the rows go on with, [rows], None at first → logits of what follows, [rows, d_vocab] float32, the caller's to change."""

Adjust = Callable[[Sequence[int], Tensor], Tensor]
"""All tokens of a row so far, its prompt's among them, and the logits of what follows, [d_vocab] → the logits that count."""

OnToken = Callable[[int, int], None]
"""Told of each row and token as soon as it is chosen. What it raises ends the generation."""


@dataclass(frozen=True)
class Decoding:
    """greedy: the likeliest token, of equals the one of the lowest id. sample: one of the fewest likeliest tokens that have top_p of the probability together.

    AtlasError for a name, temperature or top_p that there is not.
    """

    name: str = "greedy"
    temperature: float = 1.0
    """What logits are divided by before a token is drawn."""
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in ("greedy", "sample"):
            raise AtlasError(f"decoding '{self.name}' is unknown; give greedy or sample")
        if not (isfinite(self.temperature) and self.temperature > 0):
            raise AtlasError(f"a temperature of {self.temperature:g} was asked for; it is above 0, and decoding 'greedy' is what it tends to there")
        if not 0 < self.top_p <= 1:
            raise AtlasError(f"top_p of {self.top_p:g} was asked for; it is above 0 and at most 1")


GREEDY = Decoding()


@dataclass(frozen=True)
class Generated:
    """What a row went on with. finish: eos, the last token then, or length."""

    token_ids: tuple[int, ...]
    finish: str


def choose_token(logits: Tensor, decoding: Decoding, draw: float) -> int:
    """Choose a token. logits: [d_vocab], at least one of them finite. draw: in [0, 1); a larger one never draws a likelier token."""
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
    """Go on with rows of one length, [rows, seq], up to n_new tokens or, where it comes first, a token of eos; if is_exact, those are never chosen.

    What is drawn depends on the row's seed and the step alone; a row without a seed takes the likeliest token. adjust: of rows that have one. AtlasError where
    no logit is finite.
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
