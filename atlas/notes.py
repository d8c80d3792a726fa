"""Notes on the rows of a question: that they average over few cases, or are fewer than requested."""

from collections.abc import Mapping

import polars as pl

from atlas.questions import Question

FEW = 30
"""Number of cases under which an average gets a note."""


def notes(q: Question, frame: pl.DataFrame, arguments: Mapping[str, object]) -> list[str]:
    """Write the notes that a reader of the rows needs, as sentences; [] if there are none."""
    return [note for note in (note_small_counts(q, frame), shortfall(q, frame, arguments)) if note]


def note_small_counts(q: Question, frame: pl.DataFrame) -> str:
    """Note how many rows average over fewer than FEW cases; '' if none do. A row over no cases shows that itself: its average is null."""
    if q.n not in frame.columns:
        return ""
    n_rows = int(frame[q.n].is_between(1, FEW - 1).sum())
    return f"{q.n} is under {FEW} in {n_rows:,} of {frame.height:,} rows: these rows average over few cases." if n_rows else ""


def shortfall(q: Question, frame: pl.DataFrame, arguments: Mapping[str, object]) -> str:
    """Note that an atlas holds fewer rows than the n requested; '' if it holds n rows, or if n is the question's default."""
    parameter = next((p for p in q.parameters if p.name == "n"), None)
    asked = arguments.get("n")
    if parameter is None or not isinstance(asked, int) or asked == parameter.default_value or frame.is_empty():
        return ""
    found = int(frame["rank"].max()) if "rank" in frame.columns else frame.height  # type: ignore[arg-type]
    if found >= asked or not any(word in parameter.meaning for word in ("kept", "holds")) or "candidates" in frame.columns:
        return ""
    return f"{found} of the {asked} requested: n is {parameter.meaning}."
