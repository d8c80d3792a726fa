"""Tables on a terminal: as wide as the terminal, with every character of a token visible; markup in tokens is never interpreted."""

import io

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from atlas.export.cells import display_cells
from atlas.export.visible import visible_line
from schema.errors import AtlasError

LEFT_CROPPED = {"text_before"}
"""Columns that are cropped at the left: the end of their text is next to the token."""

WHOLE = {"question"}
"""Columns of names that users type: never cropped."""

WIDEST = 60
NARROWEST = 12
"""Largest width of a text column in terminal cells, and the width (or that of its name, if larger) below which it does not shrink."""
MARGIN = 3
"""Terminal cells between two columns."""

LARGEST = 100 << 20
"""Maximum characters of a table, as if every row had the widest cell of each column."""

MOST = 4
"""Characters of a text that are examined for each terminal cell of its column: accents take no cell."""


def terminal_table(frame: pl.DataFrame, *, width: int | None = None, color: bool = False) -> str:
    """Format the frame as text, at most `width` terminal cells wide (None: no limit). If columns do not fit, a last line names them.

    Raises AtlasError for a table of more than LARGEST characters.
    """
    # a stranger's too: columns of a file that was sent, or arms by their names
    heads = {c: visible_line(c) for c in frame.columns}
    cells = {c: display_cells(frame[c]) for c in frame.columns}
    wanted = {c: max([len(heads[c]), *(Text(v).cell_len for v in values)]) for c, values in cells.items()}
    widths = fit_widths(wanted, {c for c in frame.columns if not frame.schema[c].is_numeric() and c not in WHOLE}, width)
    if frame.height * sum(widths.values()) > LARGEST:
        raise AtlasError(
            f"{frame.height:,} rows of these columns can be more than a table of {LARGEST >> 20} MB: choose --format csv or json, or fewer columns"
        )
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style="bold")
    for c, w in widths.items():
        right = frame.schema[c].is_numeric() or c in LEFT_CROPPED
        table.add_column(Text(heads[c]), justify="right" if right else "left", no_wrap=True, width=w, style="bold green" if c == "token" else "")
    for i in range(frame.height):
        table.add_row(*(Text(crop(cells[c][i], w, left=c in LEFT_CROPPED)) for c, w in widths.items()))
    out = io.StringIO()
    console = Console(file=out, width=width or sum(w + MARGIN for w in widths.values()) + MARGIN, force_terminal=color, no_color=not color, emoji=False)
    console.print(table)
    left_out = [heads[c] for c in frame.columns if c not in widths]
    if left_out:
        console.print(Text(f"columns that do not fit here: {', '.join(left_out)} (choose columns with --columns)", style="dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def fit_widths(wanted: dict[str, int], flexible: set[str], width: int | None) -> dict[str, int]:
    """Fit columns into `width`: shrink the widest text column step by step, then leave out the last columns."""
    if width is None:
        return dict(wanted)
    widths = {c: min(w, WIDEST) if c in flexible else w for c, w in wanted.items()}
    while sum(w + MARGIN for w in widths.values()) > width:
        shrinkable = [c for c in widths if c in flexible and widths[c] > max(NARROWEST, len(c))]
        if shrinkable:
            widths[max(shrinkable, key=lambda c: widths[c])] -= 1
        elif len(widths) == 1:
            return dict.fromkeys(widths, max(width - MARGIN, 1))
        else:
            widths.popitem()
    return widths


def crop(text: str, width: int, *, left: bool) -> str:
    """Crop text to at most `width` terminal cells, at its left or right end, with an ellipsis for the missing characters."""
    if Text(text).cell_len <= width:
        return text
    # measured anew for each character that goes: not for all of a long text
    text = text[-MOST * width :] if left else text[: MOST * width]
    while text and Text(text).cell_len > width - 1:
        text = text[1:] if left else text[:-1]
    return f"…{text}" if left else f"{text}…"
