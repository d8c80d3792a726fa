"""Likelihood of an answer under a model: its log probability, and the difference between its first token's logit and a foil's."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ingest.model.hooks import record_layers
from ingest.model.models import Model
from schema.errors import AtlasError


@dataclass(frozen=True)
class Prompt:
    """A prompt and its answer. token_ids: tokens of the prompt. answer: tokens that should follow, one or several.

    All tokens of the answer but the last are read too, so that each is predicted from those before it.
    """

    token_ids: tuple[int, ...]
    answer: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.token_ids or not self.answer:
            raise AtlasError(f"a prompt of {len(self.token_ids)} tokens with an answer of {len(self.answer)} was given; each needs at least one")

    @property
    def input_ids(self) -> Tensor:
        """Tokens that are read: the prompt's, and all but the last of the answer's, [seq]."""
        return torch.tensor(self.token_ids + self.answer[:-1])


@dataclass(frozen=True)
class Answer:
    """An answer's tokens, and the foil: the token with which the answer's first token competes."""

    tokens: tuple[int, ...]
    foil: int

    def logprob(self, logits: Tensor) -> Tensor:
        """Sum the log probabilities of the answer's tokens, nats: [rows, tokens, d_vocab] → [rows] float64."""
        return logits.double().log_softmax(-1)[:, range(len(self.tokens)), self.tokens].sum(-1)

    def logit_difference(self, logits: Tensor) -> Tensor:
        """Subtract the foil's logit from that of the answer's first token: [rows, tokens, d_vocab] → [rows] float64."""
        first = logits[:, 0].double()
        return first[:, self.tokens[0]] - first[:, self.foil]

    def readings(self, logits: Tensor) -> Tensor:
        """Stack the log probability and the logit difference, [rows, 2]."""
        return torch.stack((self.logprob(logits), self.logit_difference(logits)), dim=-1)


def answer_logits(model: Model, prompt: Prompt) -> Tensor:
    """Compute a model's logits, without any intervention, at the positions that predict the answer's tokens, [tokens, d_vocab] float32."""
    n = len(prompt.answer)
    with record_layers(model, lambda x: x[:, -n:], ("resid_post",)) as records:
        model.backbone(prompt.input_ids[None])
    return model.lens(records[-1]["resid_post"][0].to(model.device))


def is_top(logits: Tensor, prompt: Prompt) -> bool:
    """Tell whether the model finds each of the answer's tokens most likely. logits: [tokens, d_vocab]."""
    return logits.argmax(-1).tolist() == list(prompt.answer)


def with_runner_up(logits: Tensor, prompt: Prompt) -> Answer:
    """Pair the answer with a foil: the most likely token after the prompt, other than the answer's first token. logits: [tokens, d_vocab]."""
    others = logits[0].clone()
    others[prompt.answer[0]] = -torch.inf
    return Answer(prompt.answer, int(others.argmax()))
