"""Activation patching between two prompts of equal length (Zhang and Nanda 2023): which states carry what they differ in."""

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
"""Of the two prompts' logit differences: what is nearer tells nothing apart."""


@dataclass(frozen=True, eq=False)
class Patching:
    """own and donor: [2], `Answer.readings` of the two prompts as they are. effects: rows of `effect`, null where LEAST says so."""

    own: Tensor
    donor: Tensor
    effects: pa.Table


def patch(model: Model, token_ids: Tensor, donor: Tensor, answer: Answer, cells: Sequence[Cell], progress: Progress) -> Patching:
    """Put a donor's states into a prompt, both [seq], a cell at a time: how far D, the logit of the answer less the foil's, goes over to the donor's.

    effect = (D patched - D own) / (D donor - D own): 0 where the cell does nothing, 1 where it does all. With the clean prompt as the donor that is denoising,
    which shows what is enough; with the corrupted one noising, which shows what is needed. They do not mirror each other. total_effect is D donor - D own, in
    logits. Raises AtlasError for prompts of unequal length, whose positions do not match, and for an answer of several tokens.
    """
    if len(token_ids) != len(donor):
        raise AtlasError(f"the prompts have {len(token_ids)} and {len(donor)} tokens; patching puts in position for position, so give two of equal length")
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
