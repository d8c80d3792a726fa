"""Causal tracing (Meng et al. 2022, section 2): noise is added to a subject's embeddings, and clean states are restored one at a time.

The states that bring the answer back carry what the answer needs. Where a fact can be edited is a different question (Hase et al. 2023), and neither
follows from the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor

from ingest.acting.answers import Answer, Prompt, answer_logits, is_top, with_runner_up
from ingest.acting.cells import Cell, effect_rows, patching_arm, sites_read
from ingest.acting.changes import Progress, answers_under
from ingest.acting.draws import seeded_hash
from ingest.acting.places import acting_place, module_at
from ingest.acting.runs import record_run
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention
from schema.interventions.positions import Positions

DEVIATIONS = 3.0
"""The noise's standard deviation, as a multiple of that of the subjects' embeddings (Meng et al. 2022, appendix B)."""

Subject = range
"""Indices of the subject's tokens within a prompt."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Result of a tracing. clean: `Answer.readings` without noise, [2]. corrupted: the same under noise, [draws, 2].

    is_first_noised: whether the noise covers index 0; many models keep a state there that no single restored state brings back, so the effects then say little.
    effects: rows of `effect`. Let p be the answer's probability without noise, p* its mean under noise, and p' its mean under noise with a state restored:
    effect, the indirect effect, is p' - p*, and total_effect is p - p*.
    """

    answer: Answer
    clean: Tensor
    corrupted: Tensor
    is_first_noised: bool
    effects: pa.Table


def noise_deviation(model: Model, subjects: Sequence[Sequence[int]], deviations: float = DEVIATIONS) -> float:
    """Compute `deviations` times the standard deviation of all numbers that the embedding module outputs for the tokens of all subjects.

    subjects: the token ids of each. The output differs from the weights in Gemma, which multiplies by √d_model. Raises AtlasError if no subject has a token.
    """
    token_ids = [token_id for subject in subjects for token_id in subject]
    if not token_ids:
        raise AtlasError("the noise is scaled to the embeddings of the subjects' tokens, but no subject has a token")
    with torch.inference_mode():
        embedded = module_at(model, acting_place(model, ("embedding", None)))(torch.tensor(token_ids, device=model.input_device))
    return deviations * float(embedded.double().std())


def noise_arms(subject: Subject, deviation: float, n_draws: int, seed: int) -> list[Arm]:
    """Build one arm per draw. The noise depends on seed, draw and index alone, so that every cell gets the same noise."""
    there = Positions(None, ((subject.start, subject.stop),))
    return [(Intervention("embedding", "noise", positions=there, value=deviation, seed=seeded_hash(seed, draw)),) for draw in range(n_draws)]


def trace(
    model: Model, prompt: Prompt, subject: Subject, deviation: float, cells: Sequence[Cell], *, n_draws: int, seed: int, progress: Progress
) -> Trace | None:
    """Measure the effect of each cell; None if the answer is not the model's most likely continuation.

    deviation: the noise's standard deviation, as `noise_deviation` computes it for a set of prompts. Raises AtlasError for a subject that is empty or not in
    the prompt, and for cells that do not exist.
    """
    n = len(prompt.token_ids)
    if not 0 <= subject.start < subject.stop <= n:
        raise AtlasError(f"the subject is positions {subject.start} to {subject.stop - 1}; the prompt has positions 0 to {n - 1}")
    if n_draws < 1:
        raise AtlasError(f"{n_draws} draws of noise were asked for; give one or more")
    logits = answer_logits(model, prompt)
    if not is_top(logits, prompt):
        return None
    answer = with_runner_up(logits, prompt)
    clean = answer.readings(logits[None])[0].cpu()
    donor = record_run(model, prompt.input_ids, sites_read(cells, model.n_layers))
    changes = [patching_arm(cell, model.n_layers) for cell in cells]
    corrupted, restored = answers_under(model, prompt.input_ids, noise_arms(subject, deviation, n_draws, seed), changes, donor, answer, progress)
    p, p_corrupted = clean[0].exp(), corrupted[:, 0].exp().mean()
    rows = effect_rows(cells, restored, restored[..., 0].exp().mean(1) - p_corrupted, float(p - p_corrupted))
    return Trace(answer, clean, corrupted, subject.start == 0, rows)
