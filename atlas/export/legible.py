"""Rows as a table for readers: of texts token by token one column with the words, in the place of lists of numbers that no page has room for."""

import polars as pl

TEXTS = ("tokens", "coefficients", "peak")
"""Columns of texts token by token, as trigger_contexts has them."""

SHOWN = ("rank", "coefficient", "text", "document")

BEFORE, AFTER = 10, 4
"""Tokens about the peak."""


def legible(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame as it is, but for texts token by token: rank, coefficient, the words with the peak in brackets, and the document."""
    if not set(TEXTS) <= set(frame.columns):
        return frame
    texts = pl.Series("text", [words(tokens, peak) for tokens, peak in frame.select("tokens", "peak").iter_rows()], dtype=pl.String)
    return frame.with_columns(texts).select(c for c in SHOWN if c in frame.columns or c == "text")


def words(tokens: list[str], peak: int) -> str:
    before, after = "".join(tokens[max(peak - BEFORE, 0) : peak]), "".join(tokens[peak + 1 : peak + 1 + AFTER])
    token = tokens[peak]
    space = " " if token.startswith(" ") else ""
    return f"{'… ' if peak > BEFORE else ''}{before.lstrip(' ')}{space}[{token.removeprefix(' ')}]{after}{' …' if len(tokens) > peak + 1 + AFTER else ''}"
