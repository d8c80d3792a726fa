"""Markdown tables whose cells survive any token."""

import re

import polars as pl

from atlas.export.cells import display_cells
from atlas.export.visible import visible_line

MARKUP = re.compile(r"[\\`*_\[\]<>|~#$&]")


def escape(text: str) -> str:
    """Put backslashes before characters that Markdown reads as markup."""
    return MARKUP.sub(lambda match: "\\" + match[0], text)


def markdown_table(frame: pl.DataFrame) -> str:
    """Build a pipe table; numbers are right-aligned."""
    marks = ["---:" if frame.schema[c].is_numeric() else "---" for c in frame.columns]
    columns = [[escape(cell) for cell in display_cells(frame[c])] for c in frame.columns]
    lines = [[escape(visible_line(c)) for c in frame.columns], marks, *zip(*columns, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
