"""The map run's part of a dry run: rows, and seconds from timed pieces of it."""

from functools import partial

from torch.nn.functional import normalize

from ingest.map import MOST_STATES
from ingest.model.models import Model
from ingest.paper_probe import fastest
from ingest.recorders.layout import placed, principal
from ingest.recorders.values import nearest
from ingest.request import Request
from ingest.text.survey import Survey

PROBED = 1024
"""Values that the probe places."""


def n_states(model: Model, seen: Survey | None) -> int:
    return model.n_layers * min(len(seen.sample), max(MOST_STATES // model.n_layers, 1)) if seen else 0


def map_row_counts(model: Model, request: Request, seen: Survey | None) -> dict[str, int]:
    """Rows of a map of what this request brings."""
    return {"map_point": model.n_layers * model.d_ffn + n_states(model, seen)} if request.map else {}


def probe_map(model: Model, seen: Survey | None) -> float:
    """Seconds of all layouts: their descent takes as long for every point, and the states are compared with each other first."""
    units = normalize(model.values(0)[:PROBED], dim=1)
    compare = partial(nearest, 0, [units.unsqueeze(0)])
    cosines, indices = compare()
    start = principal(lambda _: units, 1)
    point = fastest(lambda: placed(indices, cosines, start, 0)) / len(units)
    pair = fastest(compare) / len(units) ** 2
    states = n_states(model, seen)
    return point * (model.n_layers * model.d_ffn + states) + pair * states**2
