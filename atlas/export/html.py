"""Tables as HTML in which a token is always text and never markup."""

from html import escape

import polars as pl

from atlas.export.cells import display_cells
from atlas.export.visible import visible_line


def html_table(frame: pl.DataFrame) -> str:
    """Build a <table>; numbers are right-aligned, and every text cell is isolated, so that Hebrew or Arabic does not reverse its row."""
    numeric = {c: frame.schema[c].is_numeric() for c in frame.columns}
    head = "".join(f'<th scope="col"{number_class(numeric[c])}>{escape(visible_line(c))}</th>' for c in frame.columns)
    columns = [[cell(text, is_number=numeric[c]) for text in display_cells(frame[c])] for c in frame.columns]
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True))
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def cell(text: str, *, is_number: bool) -> str:
    return f"<td{number_class(True)}>{text.replace('-', '−', 1) if text.startswith('-') else text}</td>" if is_number else f"<td><bdi>{escape(text)}</bdi></td>"


def number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""
