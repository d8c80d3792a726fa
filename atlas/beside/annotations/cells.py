"""Cells of a sheet in a form that no spreadsheet program changes or runs: a cell that begins like a formula is written as text, and read back unchanged."""

from atlas.export.visible import visible_line

FORMULA_STARTS = "=+-@＝＋－＠"
GUARD = "'"
BEFORE, AFTER = "«", "»"


def guard_cell(cell: str) -> str:
    """Put an apostrophe before a cell that a spreadsheet could take for a formula, or that begins with a tab, a line break or an apostrophe of its own."""
    start = cell.lstrip()[:1]
    is_risky = (start != "" and start in FORMULA_STARTS) or cell[:1] in (GUARD, "\t", "\r", "\n")
    return f"{GUARD}{cell}" if is_risky else cell


def unguard_cell(cell: str) -> str:
    """Undo guard_cell: remove the apostrophe that it added. An apostrophe that a person typed before other text stays."""
    return cell[1:] if cell.startswith(GUARD) and guard_cell(cell[1:]) == cell else cell


def mark_token(token: str, text_before: str = "") -> str:
    """Put a token in « », after the text before it, so that no spreadsheet takes it for a number or date, or strips its space; line breaks become ↵."""
    return f"{visible_line(text_before)}{BEFORE}{visible_line(token)}{AFTER}"
