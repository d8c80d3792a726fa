"""A grid of layers and sites with a token in each cell, as a drawing for papers. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

from atlas.export.lettering import draw_text
from atlas.export.strips import INK, LINE, PAD, SIZE, UNREAD, WIDTH, clip_text, colour, page
from atlas.export.visible import visible_text

HEAD = 34.0
"""Width of the space for the names of rows, in points."""


@dataclass(frozen=True)
class Cell:
    """One cell. text: its token. share: strength of its shade, in [0, 1]. mark: further text at its right end."""

    text: str
    share: float = 0.0
    mark: str = ""


def grid_svg(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell | None]]], *, width: float = WIDTH, title: str = "") -> str:
    """Draw a row of cells for each of `rows`, with the row's name at the left; None leaves a cell empty."""
    wide = (width - 2 * PAD - HEAD) / max(len(columns), 1)
    x = [PAD + HEAD + i * wide for i in range(len(columns))]
    parts = [draw_text(clip_text(name, wide - 4, SIZE), x[i] + 2, PAD + 0.75 * LINE, SIZE, UNREAD) for i, name in enumerate(columns)]
    for r, (name, cells) in enumerate(rows, start=1):
        top = PAD + r * LINE
        parts.append(draw_text(name, PAD + HEAD - 4, top + 0.75 * LINE, SIZE, UNREAD, anchor="end"))
        parts += [cell_svg(cell, x[i], top, wide) for i, cell in enumerate(cells) if cell is not None]
    return page(width, 2 * PAD + (len(rows) + 1) * LINE, parts, title)


def cell_svg(cell: Cell, x: float, top: float, wide: float) -> str:
    box = f'<rect x="{x + 0.5:.2f}" y="{top + 0.5:.2f}" width="{wide - 1:.2f}" height="{LINE - 1:.2f}" fill="rgb{colour(cell.share, 1.0)}"/>'
    behind = draw_text(cell.mark, x + wide - 3, top + 0.75 * LINE, SIZE, INK, anchor="end") if cell.mark else ""
    room = wide - 6 - (1.2 * SIZE * len(cell.mark) if cell.mark else 0)
    return box + draw_text(clip_text(visible_text(cell.text), room, SIZE), x + 2, top + 0.75 * LINE, SIZE) + behind
