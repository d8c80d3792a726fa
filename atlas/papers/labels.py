"""Text on a chart's axes: short, on one line, and only of characters that every font has."""

from collections.abc import Iterable
from itertools import accumulate

from atlas.export.visible import visible_text

LONGEST = 24
"""Most characters of a label; the table has the whole text."""

READ = 4 * LONGEST
"""Characters of a text that are examined for one label."""

ELLIPSIS = "…"

SAFE = (
    (0x20, 0x7E), (0xA1, 0xAC), (0xAE, 0x24F),  # Latin
    (0x386, 0x38A), (0x38C, 0x38C), (0x38E, 0x3A1), (0x3A3, 0x3CE), (0x400, 0x45F),  # Greek, Cyrillic
    (0x2013, 0x2014), (0x2018, 0x201E), (0x2026, 0x2026),  # dashes, quotation marks, ellipsis
)  # fmt: skip
"""Code points that Liberation Sans and its kin have. Others would print as a blank or a box."""

MARKS = {"␣": "\u00b7", "↵": "\\n", "→": "\\t"}
"""Replacements for the marks of visible_text, such as a middle dot for a space."""


def label(text: str) -> str:
    """Make a label of `text`: spaces at its ends as ·, characters that fonts may lack as U+XXXX, and no longer than LONGEST characters."""
    return crop_label(parts(text[:READ]))


def labels(texts: Iterable[str]) -> str:
    """Join several texts in one label, with spaces between them."""
    return crop_label([part for text in texts for part in (*parts(text[:READ]), " ")][:-1])


def parts(text: str) -> list[str]:
    """List what a label shows for each character of a text: one part each, which a crop keeps or drops whole."""
    return [character_label(c) for c in visible_text(text)]


def crop_label(shown: list[str]) -> str:
    if sum(map(len, shown)) <= LONGEST:
        return "".join(shown)
    ends = list(accumulate(map(len, shown)))
    return "".join(part for part, end in zip(shown, ends, strict=True) if end < LONGEST) + ELLIPSIS


def character_label(character: str) -> str:
    if character in MARKS:
        return MARKS[character]
    return character if any(low <= ord(character) <= high for low, high in SAFE) else f"U+{ord(character):04X}"
