"""Attention knockout (Geva et al. 2023, section 5): which tokens the last position must read, and in which layers."""

from dataclasses import dataclass

import pyarrow as pa
from torch import Tensor

from ingest.acting.answers import Answer, Prompt, answer_logits, with_runner_up
from ingest.acting.cells import Cell, effect_rows
from ingest.acting.changes import Progress, answers_under
from ingest.acting.tracing import Subject
from ingest.model.models import Model
from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention
from schema.terms import BLOCKED_SOURCES

WINDOW = 9
"""Layers in which edges are blocked together."""


@dataclass(frozen=True, eq=False)
class Knockout:
    """clean: [2], `Answer.readings`. effects: rows of `effect`, their index null."""

    answer: Answer
    clean: Tensor
    effects: pa.Table


def source_edges(prompt: Prompt, subject: Subject) -> dict[str, tuple[tuple[int, int], ...]]:
    """Map each kind of source to its edges from the positions that predict the answer; a kind without any is left out.

    An edge is (destination, source). subject and non_subject are positions before the last of the prompt; last are the predicting positions themselves.
    """
    last = len(prompt.token_ids) - 1
    predicting = range(last, last + len(prompt.answer))
    sources = {"subject": [*subject], "non_subject": [index for index in range(last) if index not in subject], "last": [*predicting]}
    edges = {name: tuple((to, source) for to in predicting for source in sources[name] if source <= to) for name in BLOCKED_SOURCES}
    return {name: found for name, found in edges.items() if found}


def knock_out(model: Model, prompt: Prompt, subject: Subject, progress: Progress, window: int = WINDOW) -> Knockout:
    """Measure how p changes where no head of a window of layers reads some sources, layer by layer.

    effect = (p' - p) / p, -1 where nothing of p is left; total_effect is null. Raises AtlasError for a subject that is empty, not in the prompt, or at its
    last position, which is a source of its own; and where nothing would be left to read.
    """
    cells, changes = blocked_cells(model, prompt, subject, window)
    logits = answer_logits(model, prompt)
    answer = with_runner_up(logits, prompt)
    clean = answer.readings(logits[None])[0].cpu()
    _, found = answers_under(model, prompt.input_ids, [()], changes, {}, answer, progress)
    prob = clean[0].exp()
    return Knockout(answer, clean, effect_rows(cells, found, (found[:, 0, 0].exp() - prob) / prob, None))


def blocked_cells(model: Model, prompt: Prompt, subject: Subject, window: int) -> tuple[list[Cell], list[Arm]]:
    """List the cells, all layers of each source, and the arm that blocks it there. Raises AtlasError for a subject that `knock_out` does not take."""
    last = len(prompt.token_ids) - 1
    if not 0 <= subject.start < subject.stop <= last:
        raise AtlasError(f"the subject is positions {subject.start} to {subject.stop - 1}; knockout takes one before the last position, {last}")
    edges = source_edges(prompt, subject)
    cells = [Cell("attention", window, layer, None, name) for name in edges for layer in range(model.n_layers)]
    return cells, [blocking_arm(edges[str(cell.sources)], cell, model.n_layers) for cell in cells]


def blocking_arm(edges: tuple[tuple[int, int], ...], cell: Cell, n_layers: int) -> Arm:
    return tuple(Intervention("attention", "block", layer, edges=edges) for layer in cell.layers(n_layers))
