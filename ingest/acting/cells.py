"""Cells of a map of effects: in each cell, states are replaced by those of another run, or attention edges are blocked. The effects are rows of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor

from ingest.acting.changes import DONOR
from ingest.acting.places import Site
from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention, Source
from schema.interventions.positions import Positions

EFFECT = pa.schema(
    [
        pa.field("site", pa.string(), nullable=False),
        pa.field("window", pa.int16(), nullable=False),
        pa.field("layer", pa.int16(), nullable=False),
        pa.field("index", pa.int32()),
        pa.field("sources", pa.string()),
        pa.field("n_draws", pa.int32(), nullable=False),
        pa.field("prob", pa.float32(), nullable=False),
        pa.field("prob_se", pa.float32()),
        pa.field("logprob", pa.float32(), nullable=False),
        pa.field("logit_difference", pa.float32(), nullable=False),
        pa.field("effect", pa.float32()),
        pa.field("total_effect", pa.float32()),
    ]
)


@dataclass(frozen=True)
class Cell:
    """One cell of a map of effects: states that are replaced, or edges that are blocked.

    window: number of consecutive layers that are changed together (`window_of`).
    """

    site: str
    window: int
    layer: int
    index: int | None
    """Position of the state; None if attention edges are blocked instead."""
    sources: str | None = None
    """Kind of source whose edges are blocked; None if a state is replaced."""

    def layers(self, n_layers: int) -> range:
        return window_of(self.layer, self.window, n_layers)


def window_of(layer: int, window: int, n_layers: int) -> range:
    """Return the layers of a window: [layer - 5, layer + 5) for a window of 10, [layer - 4, layer + 5) for 9, less the layers that the model does not have.

    Raises AtlasError if the model does not have `layer` itself.
    """
    if not 0 <= layer < n_layers:
        raise AtlasError(f"layer {layer} was asked for; the model has layers 0 to {n_layers - 1}")
    start = layer - window // 2
    return range(max(0, start), min(n_layers, start + window))


def cells_of(windows: Mapping[str, int], layers: Sequence[int], n_positions: int) -> list[Cell]:
    """List the cells at all positions of these layers, site by site. windows: site → number of layers that are replaced together."""
    return [Cell(site, window, layer, index) for site, window in windows.items() for layer in layers for index in range(n_positions)]


def patching_arm(cell: Cell, n_layers: int) -> Arm:
    """Build the arm that replaces the cell's states with those of prompt DONOR's own run."""
    assert cell.index is not None
    there = Positions(None, ((cell.index, cell.index + 1),))
    return tuple(Intervention(cell.site, "patch", layer, positions=there, source=Source(DONOR, None)) for layer in cell.layers(n_layers))


def sites_read(cells: Sequence[Cell], n_layers: int) -> set[Site]:
    """Collect the sites and layers whose states the cells take from a donor's run."""
    return {(cell.site, layer) for cell in cells for layer in cell.layers(n_layers)}


def effect_rows(cells: Sequence[Cell], readings: Tensor, effects: Tensor, total_effect: float | None) -> pa.Table:
    """Build the rows of `effect`. readings: [cells, draws, 2], as `Answer.readings` gives them. effects: [cells], NaN for a cell without an effect."""
    prob = readings[..., 0].exp()
    n_draws = prob.shape[1]
    se = prob.std(dim=1) / n_draws**0.5 if n_draws > 1 else torch.full((len(cells),), torch.nan)
    columns = {
        "site": [cell.site for cell in cells],
        "window": [cell.window for cell in cells],
        "layer": [cell.layer for cell in cells],
        "index": [cell.index for cell in cells],
        "sources": [cell.sources for cell in cells],
        "n_draws": [n_draws] * len(cells),
        "prob": prob.mean(1).tolist(),
        "prob_se": without_nan(se),
        "logprob": readings[..., 0].mean(1).tolist(),
        "logit_difference": readings[..., 1].mean(1).tolist(),
        "effect": without_nan(effects),
        "total_effect": [total_effect] * len(cells),
    }
    return pa.table(columns, schema=EFFECT)


def without_nan(x: Tensor) -> list[float | None]:
    return [None if number != number else number for number in x.tolist()]
