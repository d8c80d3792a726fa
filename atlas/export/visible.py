"""Text so that a reader sees every character of it: tokens begin with spaces, hold line breaks, and look alike otherwise."""

import unicodedata

GLYPHS = {"\n": "↵", "\t": "→"}
SPACE = "␣"
HIDDEN = {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}
"""Unicode categories with no glyph of their own: controls, direction marks, private and unassigned characters, separators."""


def visible(text: str | None) -> str:
    """Line breaks as ↵, tabs as →, spaces at either end as ␣, characters without a glyph as \\xNN or \\uNNNN; nothing where there is no text."""
    text = text or ""
    core = text.strip(" ")
    if not core:
        return SPACE * len(text)
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return SPACE * before + "".join(map(visible_character, core)) + SPACE * after


def visible_character(character: str) -> str:
    if character in GLYPHS:
        return GLYPHS[character]
    if character == "\u00a0" or unicodedata.category(character) in HIDDEN:
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character


def visible_line(text: str | None) -> str:
    """Text within a line: as visible(), with plain spaces."""
    return "".join(map(visible_character, text or ""))
