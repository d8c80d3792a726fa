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
"""Number of adjacent layers in which edges are blocked together."""


@dataclass(frozen=True, eq=False)
class Knockout:
    """Result of a knockout. clean: `Answer.readings` without intervention, [2]. effects: rows of `effect`, their index null."""

    answer: Answer
    clean: Tensor
    effects: pa.Table


def source_edges(prompt: Prompt, subject: Subject) -> dict[str, tuple[tuple[int, int], ...]]:
    """Map each kind of source to the edges by which the positions that predict the answer read such sources; a kind without edges is left out.

    An edge is (destination, source). The kinds `subject` and `non_subject` cover the positions before the prompt's last; the kind `last` is the predicting
    positions themselves.
    """
    last = len(prompt.token_ids) - 1
    predicting = range(last, last + len(prompt.answer))
    sources = {"subject": [*subject], "non_subject": [index for index in range(last) if index not in subject], "last": [*predicting]}
    edges = {name: tuple((to, source) for to in predicting for source in sources[name] if source <= to) for name in BLOCKED_SOURCES}
    return {name: found for name, found in edges.items() if found}


def knock_out(model: Model, prompt: Prompt, subject: Subject, progress: Progress, window: int = WINDOW) -> Knockout:
    """Measure, layer by layer, how the answer's probability p changes if no head in a window of layers may read one kind of source.

    effect = (p' - p) / p, where p' is the probability with the sources blocked; -1 if p' is 0. total_effect is null. Raises AtlasError for a subject that is
    empty, not in the prompt, or includes the prompt's last position, which is a kind of source itself; and if a position would have nothing left to read.
    """
    cells, changes = blocked_cells(model, prompt, subject, window)
    logits = answer_logits(model, prompt)
    answer = with_runner_up(logits, prompt)
    clean = answer.readings(logits[None])[0].cpu()
    _, found = answers_under(model, prompt.input_ids, [()], changes, {}, answer, progress)
    prob = clean[0].exp()
    return Knockout(answer, clean, effect_rows(cells, found, (found[:, 0, 0].exp() - prob) / prob, None))


def blocked_cells(model: Model, prompt: Prompt, subject: Subject, window: int) -> tuple[list[Cell], list[Arm]]:
    """List a cell for each kind of source and layer, and for each cell the arm that blocks its edges. Raises AtlasError for a subject as `knock_out` does."""
    last = len(prompt.token_ids) - 1
    if not 0 <= subject.start < subject.stop <= last:
        raise AtlasError(f"the subject is positions {subject.start} to {subject.stop - 1}; knockout needs one that ends before the last position, {last}")
    edges = source_edges(prompt, subject)
    cells = [Cell("attention", window, layer, None, name) for name in edges for layer in range(model.n_layers)]
    return cells, [blocking_arm(edges[str(cell.sources)], cell, model.n_layers) for cell in cells]


def blocking_arm(edges: tuple[tuple[int, int], ...], cell: Cell, n_layers: int) -> Arm:
    return tuple(Intervention("attention", "block", layer, edges=edges) for layer in cell.layers(n_layers))
