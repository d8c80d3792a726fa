"""Causal tracing (Meng et al. 2022, section 2): noise on a subject's embeddings, and which clean states, put back one at a time, bring the answer back.

It says where what the answer needs is carried. Where a fact can be edited is another matter (Hase et al. 2023), and neither follows from the other.
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
"""The noise's standard deviation, in those of the subjects' embeddings (Meng et al. 2022, appendix B)."""

Subject = range
"""Indices of a prompt's tokens."""


@dataclass(frozen=True, eq=False)
class Trace:
    """clean: [2], and corrupted: [draws, 2], are `Answer.readings`. is_first_noised: the noise hits index 0, where many models keep a state that no single
    one restores, so that the effects say little. effects: rows of `effect`, the indirect ones: p with a state restored - p*; total_effect is p - p*."""

    answer: Answer
    clean: Tensor
    corrupted: Tensor
    is_first_noised: bool
    effects: pa.Table


def noise_deviation(model: Model, subjects: Sequence[Sequence[int]], deviations: float = DEVIATIONS) -> float:
    """Compute `deviations` times the one standard deviation of all numbers that the embedding module gives for the tokens of all subjects.

    Of its output, not of its weights: Gemma multiplies by √d_model. Raises AtlasError where there are no two numbers.
    """
    token_ids = [token_id for subject in subjects for token_id in subject]
    if not token_ids:
        raise AtlasError("the noise is measured on the subjects' tokens, and no subject has any")
    with torch.inference_mode():
        embedded = module_at(model, acting_place(model, ("embedding", None)))(torch.tensor(token_ids, device=model.input_device))
    return deviations * float(embedded.double().std())


def noise_arms(subject: Subject, deviation: float, n_draws: int, seed: int) -> list[Arm]:
    """Build one arm per draw. What is drawn depends on draw and index alone, so that every cell has the same noise."""
    there = Positions(None, ((subject.start, subject.stop),))
    return [(Intervention("embedding", "noise", positions=there, value=deviation, seed=seeded_hash(seed, draw)),) for draw in range(n_draws)]


def trace(
    model: Model, prompt: Prompt, subject: Subject, deviation: float, cells: Sequence[Cell], *, n_draws: int, seed: int, progress: Progress
) -> Trace | None:
    """Measure the effect of each cell; None where the answer is not what the model finds most likely.

    deviation: the noise's, as `noise_deviation` finds it for a set of prompts. Raises AtlasError for a subject that is empty or not in the prompt, and
    for cells that there are not.
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
