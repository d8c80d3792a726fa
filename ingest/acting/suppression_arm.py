"""The results of one arm of a suppression experiment: continuations, their scores, the differences of the scores from the base's, and the arm's cost.

The cost is the loss on a text. The methods that change the logits instead of the forward pass get a loss on the same text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ingest.acting.bootstrap import paired_difference
from ingest.acting.continuations import ContinuationSettings, continuations, generation_rows, score_rows
from ingest.acting.perplexity import POSITIONS_AT_ONCE, TextLoss, distinct_bigrams, last_states, text_loss
from ingest.acting.scorers import Scorer
from ingest.acting.self_debias import debias_logits, with_description
from ingest.acting.suppression import SELF_DEBIASING, WORD_FILTER, PlannedArm
from ingest.acting.word_filter import Forms, word_filter
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.resolve import LookUp

Logits = Callable[[slice], Tensor]
"""Positions of a window → logits of the token that follows each of them, [positions, d_vocab]."""

Rows = list[dict[str, Any]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ScoredContinuations:
    """Rows of `generation` and of `generation_score`."""

    generations: Rows
    scores: Rows


@dataclass(frozen=True)
class SuppressionTrial:
    """The part of a suppression experiment that all arms share.

    prompts: each [seq]. clusters: the cluster of each prompt. text: the windows of the text on which the loss of arms is computed. corpus_id: the corpus of
    that text. seed: of the bootstrap.
    """

    model: Model
    prompts: Sequence[Tensor]
    clusters: Sequence[str]
    how: ContinuationSettings
    scorers: Sequence[Scorer]
    text: Sequence[Tensor]
    corpus_id: int
    look_up: LookUp
    base: PlannedArm
    seed: int

    @cached_property
    def base_continuations(self) -> ScoredContinuations:
        """The base arm's continuations. If an interrupted experiment resumes after its base arm, they are generated again, with the same bits."""
        return self.write_continuations(0, self.base, lambda *_: None)

    def write_continuations(self, arm_id: int, planned: PlannedArm, progress: Progress) -> ScoredContinuations:
        generations = generation_rows(self.model, arm_id, continuations(self.model, self.prompts, planned, self.how, progress))
        return ScoredContinuations(generations, score_rows(generations, self.scorers))

    def arm_rows(self, arm_id: int, planned: PlannedArm, progress: Progress) -> dict[str, Rows]:
        """Build the rows of an arm, as a mapping from table to rows."""
        is_base = planned.role == "base"
        found = self.base_continuations if is_base else self.write_continuations(arm_id, planned, progress)
        read = self.loss(planned)
        cost = {
            "arm_id": arm_id, "corpus_id": self.corpus_id, "n_tokens": read.n_tokens, "loss": read.loss, "perplexity": read.perplexity,
            "distinct_2": distinct_bigrams([row["token_ids"] for row in found.generations]),
        }  # fmt: skip
        differences = [] if is_base else self.differences(arm_id, found)
        return {"generation": found.generations, "generation_score": found.scores, "score_difference": differences, "arm_cost": [cost]}

    def loss(self, planned: PlannedArm) -> TextLoss:
        if planned.way == WORD_FILTER:
            return filtered_loss(self.model, self.text, self.how.forms)
        if planned.way == SELF_DEBIASING:
            return debiased_loss(self.model, self.text, self.how.debiasing, self.how.descriptions)
        return text_loss(self.model, self.text, planned.arm, self.look_up, {})

    def differences(self, arm_id: int, found: ScoredContinuations) -> Rows:
        """Build the rows of `score_difference`, one for each scorer, decoding and measure."""
        decoding = {(row["prompt_id"], row["sample"]): row["decoding"] for row in found.generations}
        pairs: dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
        for row, base in zip(found.scores, self.base_continuations.scores, strict=True):
            pairs.setdefault((row["scorer"], decoding[row["prompt_id"], row["sample"]]), []).append((row, base))
        return [
            {"arm_id": arm_id, "scorer": scorer, "decoding": how, "measure": measure, **self.difference(of, column)}
            for (scorer, how), of in pairs.items()
            for measure, column in (("over", "is_over"), ("score", "score"))
        ]

    def difference(self, pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], column: str) -> dict[str, Any]:
        clusters = [self.clusters[row["prompt_id"]] for row, _ in pairs]
        found = paired_difference([row[column] for row, _ in pairs], [base[column] for _, base in pairs], clusters, self.seed)
        return {
            "n_pairs": len(pairs), "n_clusters": found.interval.n_clusters, "n_draws": found.interval.n_draws, "difference": found.mean,
            "low": found.interval.low, "high": found.interval.high, "interval_note": found.interval.note,
        }  # fmt: skip


def filtered_loss(model: Model, pieces: Sequence[Tensor], forms: Forms) -> TextLoss:
    """Compute the loss over the tokens that the filter allows; that of a forbidden token would be infinite. pieces: windows of a text, as in `text_loss`."""
    adjust = word_filter(forms)

    def filtered_nats(piece: Tensor) -> Tensor:
        text, plain = piece.tolist(), states(model, piece)

        def logits(at: slice) -> Tensor:
            return torch.stack([adjust(text[: at.start + i + 1], row) for i, row in enumerate(model.lens(plain[at]))])

        return token_nats(logits, piece)

    return mean_loss([filtered_nats(piece) for piece in pieces])


def debiased_loss(model: Model, pieces: Sequence[Tensor], strength: float, descriptions: Sequence[str]) -> TextLoss:
    """Compute the loss under the distribution that self-debiasing draws from.

    pieces: windows of a text, as in `text_loss`; each must fit in the model's context together with any one of the descriptions.
    """

    def debiased_nats(piece: Tensor) -> Tensor:
        plain = states(model, piece)
        others = [states(model, with_description(model, piece[None], one)[0])[-len(piece) :] for one in descriptions]
        return token_nats(lambda at: debias_logits(model.lens(plain[at]), [model.lens(other[at]) for other in others], strength), piece)

    return mean_loss([debiased_nats(piece) for piece in pieces])


def states(model: Model, tokens: Tensor) -> Tensor:
    """Compute resid_post of the last layer, [seq, d_model]. Raises AtlasError for more tokens than the model reads."""
    if model.max_context is not None and len(tokens) > model.max_context:
        raise AtlasError(f"model {model.name} reads at most {model.max_context} tokens, and {len(tokens)} were given")
    with torch.inference_mode():
        return last_states(model, tokens)


def token_nats(logits: Logits, piece: Tensor) -> Tensor:
    """Compute -log p of each token of a window but the first, float64."""
    found = []
    for start in range(0, len(piece) - 1, POSITIONS_AT_ONCE):
        at = slice(start, min(start + POSITIONS_AT_ONCE, len(piece) - 1))
        log_p = torch.log_softmax(logits(at).double(), dim=-1).cpu()
        found.append(-log_p.gather(1, piece[at.start + 1 : at.stop + 1, None])[:, 0])
    return torch.cat(found)


def mean_loss(found: Sequence[Tensor]) -> TextLoss:
    """Average the loss over the allowed tokens. Raises AtlasError if no token is allowed."""
    finite = (every := torch.cat(list(found)))[every.isfinite()]
    if not len(finite):
        raise AtlasError("the filter forbids every token of the text that is to be predicted, so that there is no loss")
    return TextLoss(len(finite), float(finite.mean()))
