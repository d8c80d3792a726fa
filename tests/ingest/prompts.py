"""A prompt that tiny models answer, in float64, for what acts on it."""

import torch

from ingest.acting.answers import Prompt
from ingest.model.models import Model, wrap
from tests.ingest.acting_oracle import by_hand
from tests.ingest.tiny_models import randomise, tiny_hf, tiny_tokenizer, token_batch

N = 7
TOKENS, OTHER = token_batch(2, N, seed=3)
SUBJECT = range(1, 3)


def exact(family: str, **changes: object) -> Model:
    """Gemma-2's logits are let out of a cap so tight that all are alike, and Bloom's come as far apart as others'."""
    more = changes | ({"final_logit_softcapping": 20.0} if family == "gemma2" else {})
    hf = tiny_hf(family, dtype=torch.float64, **more)
    return wrap(randomise(hf, std=0.8) if family == "bloom" else hf, tiny_tokenizer(), f"exact-{family}")


def prompt_with_answer(model: Model, n_tokens: int = 1) -> Prompt:
    """The prompt with what the model says after it."""
    tokens = TOKENS
    for _ in range(n_tokens):
        tokens = torch.cat((tokens, by_hand(model.hf, tokens, [])[-1].argmax()[None]))
    return Prompt(tuple(TOKENS.tolist()), tuple(tokens[N:].tolist()))


def unheard(_n: int, _of: int) -> None:
    """Progress that nobody follows."""
