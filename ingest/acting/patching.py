"""Activation patching between two prompts of equal length (Zhang and Nanda 2023): which states carry the difference between the prompts."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor

from ingest.acting.answers import Answer
from ingest.acting.cells import Cell, effect_rows, patching_arm, sites_read
from ingest.acting.changes import Progress, answers_under
from ingest.acting.runs import record_run
from ingest.model.models import Model
from schema.errors import AtlasError

LEAST = 0.5
"""Smallest distance between the two prompts' logit differences, in logits, at which effects are computed; below it they are null."""


@dataclass(frozen=True, eq=False)
class Patching:
    """Result of a patching. own and donor: `Answer.readings` of the two prompts without intervention, [2]. effects: rows of `effect`; see LEAST."""

    own: Tensor
    donor: Tensor
    effects: pa.Table


def patch(model: Model, token_ids: Tensor, donor: Tensor, answer: Answer, cells: Sequence[Cell], progress: Progress) -> Patching:
    """Put a donor's states into a prompt, both [seq], one cell at a time, and measure how far D, the answer's logit minus the foil's, moves to the donor's D.

    effect = (D patched - D own) / (D donor - D own): 0 if the cell does nothing, 1 if it accounts for the whole difference. With the clean prompt as the donor
    this is denoising, which shows which states are sufficient; with the corrupted prompt as the donor it is noising, which shows which are necessary. The two
    are not mirror images. total_effect is D donor - D own, in logits. Raises AtlasError for prompts of unequal length, whose positions do not match, and for
    an answer of several tokens.
    """
    if len(token_ids) != len(donor):
        raise AtlasError(f"the prompts have {len(token_ids)} and {len(donor)} tokens; patching replaces states position by position: give equal lengths")
    if len(answer.tokens) != 1:
        raise AtlasError(f"patching compares the logits of two tokens; an answer of {len(answer.tokens)} was given")
    run = record_run(model, donor, sites_read(cells, model.n_layers))
    changes = [patching_arm(cell, model.n_layers) for cell in cells]
    own, patched = answers_under(model, token_ids, [()], changes, run, answer, progress)
    theirs, _ = answers_under(model, donor, [()], [], {}, answer, progress)
    total = float(theirs[0, 1] - own[0, 1])
    moved = patched[:, 0, 1] - own[0, 1]
    effects = moved / total if abs(total) >= LEAST else torch.full_like(moved, torch.nan)
    return Patching(own[0], theirs[0], effect_rows(cells, patched, effects, total))
