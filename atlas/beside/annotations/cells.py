"""Cells of a sheet that no spreadsheet changes or runs: what begins like a formula is written as text, and read back as it was."""

from atlas.export.visible import visible_line

FORMULA_STARTS = "=+-@＝＋－＠"
GUARD = "'"
BEFORE, AFTER = "«", "»"


def guard_cell(cell: str) -> str:
    """Put an apostrophe before a cell that a spreadsheet could take for a formula, or whose own apostrophe it could take for such a mark."""
    start = cell.lstrip()[:1]
    is_risky = (start != "" and start in FORMULA_STARTS) or cell[:1] in (GUARD, "\t", "\r", "\n")
    return f"{GUARD}{cell}" if is_risky else cell


def unguard_cell(cell: str) -> str:
    """Undo guarded: take off the apostrophe that it put on. One that a person typed before anything else stays."""
    return cell[1:] if cell.startswith(GUARD) and guard_cell(cell[1:]) == cell else cell


def mark_token(token: str, text_before: str = "") -> str:
    """Put a token in « », after its text, so that no spreadsheet takes it for a number or a date, or strips its space; line breaks become ↵."""
    return f"{visible_line(text_before)}{BEFORE}{visible_line(token)}{AFTER}"
