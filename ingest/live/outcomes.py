"""Predictions of a prompt and of each arm, side by side: rows of `outcome` and `outcome_token`, as in an experiments file.

Each arm also has a score: what the sub-updates that the arm changes add to the logits in the base, on the direct path to the output. It is to be compared with
the arm's real effect. Source: Geva et al. 2022, section 3 (sub-updates and their scores).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.live.jobs import Tell
from ingest.live.tracing import MOST_LOGITS, TracedPrompt
from ingest.model.models import Model
from ingest.model.ranking import rank_of, top_k
from schema.interventions.intervention import Arm

SITES = ("coefficient", "pre_activation")
"""Sites at which a change is a change of a coefficient."""


def scores(model: Model, traced: TracedPrompt, arm: Arm, indices: range, answers: Tensor) -> dict[str, pa.Array]:
    """Compute score and frozen_score at some indices of the prompt, [len(indices)], for the answer at each; null where the arm changes no coefficient.

    score is Σ m_i·(e_w·v_i) over the changed neurons i, with m_i the base's coefficient times ffn_scale, v_i the value, and e_w the answer's row of the output
    embedding. frozen_score has û_w of `Model.logit_readers`, divided by the base's `Model.final_scale`, in place of e_w. Both are logits.
    """
    rows = slice(indices.start, indices.stop)
    written = torch.zeros_like(traced.last[0, rows])
    is_changed = np.zeros(len(indices), bool)
    for layer, neurons, mask in changed_neurons(model, arm, indices, traced.last.shape[1]):
        m = traced.states.coefficients[layer, rows][:, neurons].float() * traced.states.ffn_scale[layer, rows, None]
        written += (m * mask.to(m)) @ model.values(layer)[neurons]
        is_changed |= mask.any(1).numpy()
    readers = {"score": model.unembedding[answers], "frozen_score": model.logit_readers(answers) / model.final_scale(traced.last[0, rows])[:, None]}
    return {name: pa.array((written * reader).sum(1).cpu().numpy(), mask=~is_changed) for name, reader in readers.items()}


def changed_neurons(model: Model, arm: Arm, indices: range, n: int) -> Iterator[tuple[int, list[int], Tensor]]:
    """Yield each layer, the neurons that a resolved arm changes in it, and a mask of the indices at which it changes each, [len(indices), neurons] booleans.

    n: number of tokens of the prompt.
    """
    cells: dict[int, dict[int, set[int]]] = {}
    for change in arm:
        if change.site in SITES and change.layer is not None and change.units and change.positions is not None:
            at = cells.setdefault(change.layer, {}).setdefault(change.units[0], set())
            for start, end in change.positions.index_ranges(n):
                at.update(range(max(start, indices.start), min(n if end is None else end, indices.stop)))
    for layer, of_layer in cells.items():
        mask = torch.zeros(len(indices), len(of_layer), dtype=torch.bool)
        for column, at in enumerate(of_layer.values()):
            mask[[index - indices.start for index in at], column] = True
        yield layer, list(of_layer), mask


N_TOKENS = 10

HELD = 8
"""Number of arrays in memory that are as large as the logits of the positions processed together: of base and arm, float64 copies included."""


@torch.inference_mode()
def outcome_tables(model: Model, traced: TracedPrompt, tell: Tell, prompt_id: int = 0) -> dict[str, pa.Table]:
    """Build the rows of `outcome` and `outcome_token` for every position of the base (arm 0) and of each arm.

    At each position the answer is the base's most likely token, and the foil its second most likely. kl_from_base is KL(base ‖ arm) in nats. answer_logprob and
    entropy are in nats too. logit_difference is the answer's logit minus the foil's.
    """
    n_arms, n = traced.last.shape[:2]
    most = max(1, MOST_LOGITS // (model.d_vocab * HELD))
    size = min(n, most)
    outcomes, tokens = [], []
    for start in range(0, n, size):
        indices = range(start, min(start + size, n))
        rows = slice(indices.start, indices.stop)
        base = Base.from_logits(model.lens(traced.last[0, rows]))
        # few positions of many arms are one product too, or the output embedding would be read for each
        for group in torch.arange(n_arms).split(max(1, most // size)):
            tell("what each arm predicts", (start + int(group[0]) / n_arms * len(indices)) / n)
            for arm_id, logits in zip(group.tolist(), model.lens(traced.last[group, rows]), strict=True):
                # an arm that changes nothing differs by no rounding either
                is_base = arm_id == 0 or traced.is_as_base[arm_id - 1]
                of_arm = base.logits if is_base else logits
                place = {"arm_id": np.full(len(indices), arm_id, np.int32), "prompt_id": np.full(len(indices), prompt_id, np.int32)}
                scored = scores(model, traced, traced.arms[arm_id - 1] if arm_id else (), indices, base.answers[:, 0])
                outcomes.append(pa.table({**place, "index": np.array(indices, np.int32), **outcome(base, of_arm), **scored}))
                tokens.append(pa.table(outcome_tokens(of_arm, arm_id, prompt_id, indices)))
    return {"outcome": pa.concat_tables(outcomes), "outcome_token": pa.concat_tables(tokens)}


@dataclass(frozen=True, eq=False)
class Base:
    """The base's predictions at n positions. logits, log_probs (float64): [n, d_vocab]. answers: the two likeliest tokens, [n, 2]."""

    logits: Tensor
    log_probs: Tensor
    answers: Tensor

    @classmethod
    def from_logits(cls, logits: Tensor) -> Self:
        return cls(logits, logits.double().log_softmax(-1), top_k(logits, 2)[1])


def outcome(base: Base, logits: Tensor) -> dict[str, np.ndarray]:
    """Compute the columns of `outcome` for one arm, at the positions of `base`. logits: those of the arm, [n, d_vocab]."""
    log_probs = logits.double().log_softmax(-1)
    best = top_k(logits, 1)[1]
    answer = base.answers[:, :1]
    pair = logits.gather(1, base.answers)
    return {
        "top_token_id": ints(best[:, 0]),
        "top_prob": log_probs.gather(1, best)[:, 0].exp().float().cpu().numpy(),
        "answer_logprob": log_probs.gather(1, answer)[:, 0].cpu().numpy(),
        "answer_logit": pair[:, 0].cpu().numpy(),
        "answer_rank": ints(rank_of(logits, answer[:, 0])),
        "logit_difference": (pair[:, 0] - pair[:, -1]).double().cpu().numpy(),
        "kl_from_base": divergence(base.log_probs, log_probs).cpu().numpy(),
        "entropy": -torch.xlogy(log_probs.exp(), log_probs.exp()).sum(-1).cpu().numpy(),
    }


def divergence(base: Tensor, log_probs: Tensor) -> Tensor:
    """Compute KL(base ‖ arm) in nats, [n], from the log probabilities of both, [n, d_vocab].

    A token of probability 0 in the base adds nothing. The result is never below 0: negative rounding errors are clamped.
    """
    weights = base.exp()
    return torch.where(weights > 0, weights * (base - log_probs), 0).sum(-1).clamp_min(0)


def outcome_tokens(logits: Tensor, arm_id: int, prompt_id: int, indices: Sequence[int]) -> dict[str, np.ndarray]:
    _, tokens = top_k(logits, N_TOKENS)
    probs = logits.softmax(-1).gather(1, tokens)
    n, k = tokens.shape
    return {
        "arm_id": np.full(n * k, arm_id, np.int32),
        "prompt_id": np.full(n * k, prompt_id, np.int32),
        "index": np.repeat(np.array(indices, np.int32), k),
        "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
        "token_id": ints(tokens).ravel(),
        "prob": probs.float().cpu().numpy().ravel(),
    }


def ints(x: Tensor) -> np.ndarray:
    return x.cpu().numpy().astype(np.int32)
