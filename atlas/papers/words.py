"""Numbers of a frame in words, for captions and comparisons; – stands for a missing number."""

import polars as pl

NONE = "–"


def percent(share: float | None, digits: int = 1) -> str:
    return NONE if share is None else f"{share:.{digits}%}"


def number(value: float | None, format: str = ",.0f") -> str:
    return NONE if value is None else f"{value:{format}}"


def total(frame: pl.DataFrame, column: str, what: str) -> str:
    """Sum a column of counts: '46,080 keys'."""
    return f"{int(frame[column].sum()):,} {what}"


def describe_count(frame: pl.DataFrame, column: str, what: str) -> str:
    """Describe a count that every row has, or the largest if they differ: '320 traced positions'."""
    return f"{int(frame[column].max() or 0):,} {what}"  # type: ignore[arg-type]


def mean(frame: pl.DataFrame, column: str) -> float | None:
    found = frame[column].mean()
    return None if found is None else float(found)  # type: ignore[arg-type]


def ratio(frame: pl.DataFrame, part: str, whole: str) -> float | None:
    """Divide the sum of one column by that of another; None if the latter is 0."""
    n = int(frame[whole].sum())
    return int(frame[part].sum()) / n if n else None


def at_layer(frame: pl.DataFrame, column: str, *, largest: bool = True, digits: int = 1) -> str:
    """Find a share's extreme and the first layer that has it: '3.5% at layer 15'."""
    found = frame.drop_nulls(column).sort(column, "layer", descending=[largest, False])
    return NONE if found.is_empty() else f"{percent(found[column][0], digits)} at layer {found['layer'][0]}"


def ends(frame: pl.DataFrame, column: str, digits: int = 1) -> str:
    """Describe a share at the first and the last layer: '2.0% at layer 0, 60.1% at layer 29'."""
    found = frame.drop_nulls(column).sort("layer")
    if found.is_empty():
        return NONE
    return ", ".join(f"{percent(found[column][i], digits)} at layer {found['layer'][i]}" for i in (0, -1))


def input_eliminations(frame: pl.DataFrame, n: str, n_input: str) -> str:
    """Describe in a sentence how many eliminations remove the input token; `n` and `n_input` are columns of counts over different events."""
    return f"Of the {total(frame, n, 'eliminations')} {total(frame, n_input, 'take down the input token, the very token that was just read')}."


def describe_table4_input(frame: pl.DataFrame) -> str:
    """Describe how many eliminations remove the input token from the top; '' if there are none."""
    eliminations = frame.filter(event="elimination", selection="dominant")
    return f" {input_eliminations(eliminations, 'n_events', 'n_input_token')}" if eliminations.height else ""


def proposal_note(frame: pl.DataFrame) -> str:
    """Write the note that the program proposed the patterns, and no person found them; '' if that is not so."""
    return " Proposed by the program, not found by a person." if (frame["annotator_kind"] == "proposed").any() else ""
