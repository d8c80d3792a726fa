"""Views of a prediction as drawings: rows of its questions in, SVG and LaTeX out. Pure."""

import polars as pl

from atlas.export.grids import Cell, grid_svg
from atlas.export.strips import Text, strips_latex, strips_svg
from schema.terms import SITES
from ui import lens


def passage(around: pl.DataFrame) -> tuple[str, str]:
    """Rows of position_tokens: the text about a position, which has the frame."""
    tokens = around["token"].to_list()
    text = Text(tuple(tokens), (None,) * len(tokens), int(around["is_asked"].arg_max() or 0))
    return strips_svg([text]), strips_latex([text])


def grid(trace: pl.DataFrame, events: pl.DataFrame) -> tuple[str, str]:
    """Rows of prediction_trace and position_events: the leading token at every site, its probability as shade, signs of events."""
    signs = lens.marks(events.iter_rows(named=True))
    cells = {
        (row["layer"], row["site"]): Cell(row["top_token"], row["top_prob"], signs.get((row["layer"], row["site"]), "")) for row in trace.iter_rows(named=True)
    }
    layers = sorted({layer for layer, _ in cells})
    return grid_svg(SITES, [(str(layer), [cells.get((layer, site)) for site in SITES]) for layer in layers]), ""
