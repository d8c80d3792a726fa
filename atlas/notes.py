"""What goes with the rows of a question: that they are averaged over few, or fewer than were asked for."""

from collections.abc import Mapping

import polars as pl

from atlas.questions import Question

FEW = 30
"""An average over fewer is noted."""


def notes(q: Question, frame: pl.DataFrame, arguments: Mapping[str, object]) -> list[str]:
    """Write sentences to read the rows with; none where there is nothing to say."""
    return [note for note in (note_small_counts(q, frame), shortfall(q, frame, arguments)) if note]


def note_small_counts(q: Question, frame: pl.DataFrame) -> str:
    """Note how many rows rest on fewer than FEW; '' if none. A row over nothing shows that itself: what it would average is null."""
    if q.n not in frame.columns:
        return ""
    n_rows = int(frame[q.n].is_between(1, FEW - 1).sum())
    return f"{q.n} is under {FEW} in {n_rows:,} of {frame.height:,} rows: what they average over is little." if n_rows else ""


def shortfall(q: Question, frame: pl.DataFrame, arguments: Mapping[str, object]) -> str:
    """Word the note that an atlas holds fewer than the n asked for; '' if it holds as many, or the n is the question's own."""
    parameter = next((p for p in q.parameters if p.name == "n"), None)
    asked = arguments.get("n")
    if parameter is None or not isinstance(asked, int) or asked == parameter.default_value or frame.is_empty():
        return ""
    found = int(frame["rank"].max()) if "rank" in frame.columns else frame.height  # type: ignore[arg-type]
    if found >= asked or not any(word in parameter.meaning for word in ("kept", "holds")) or "candidates" in frame.columns:
        return ""
    return f"{found} of the {asked} asked for: n is {parameter.meaning}."
