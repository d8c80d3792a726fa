"""Views as drawings for papers: rows of questions in, SVG and LaTeX out. Pure functions."""

import polars as pl

from atlas.export.grids import Cell, grid_svg
from atlas.export.strips import Text, strips_latex, strips_svg, texts_of
from schema.terms import SITES
from ui.prediction import lens


def triggers(rows: pl.DataFrame, largest: float) -> tuple[str, str]:
    """Draw rows of trigger_contexts, on the page's scale."""
    texts = texts_of(rows)
    return strips_svg(texts, largest=largest), strips_latex(texts, largest=largest)


def reading(rows: pl.DataFrame, largest: float) -> tuple[str, str]:
    """Draw rows of reading: each token of a passage, shaded by its surprisal in nats."""
    text = Text(tuple(rows["token"]), tuple(rows["surprisal"]), rows.height)
    return strips_svg([text], largest=largest), strips_latex([text], largest=largest)


def grid(trace: pl.DataFrame, events: pl.DataFrame) -> tuple[str, str]:
    """Draw rows of prediction_trace and position_events: the leading token at every site, its probability as shade, signs of events."""
    signs = lens.marks(events.iter_rows(named=True))
    cells = {
        (row["layer"], row["site"]): Cell(row["top_token"], row["top_prob"], signs.get((row["layer"], row["site"]), "")) for row in trace.iter_rows(named=True)
    }
    layers = sorted({layer for layer, _ in cells})
    return grid_svg(SITES, [(str(layer), [cells.get((layer, site)) for site in SITES]) for layer in layers]), ""
