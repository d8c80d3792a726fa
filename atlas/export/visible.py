"""Text with every character made visible: tokens begin with spaces, contain line breaks, and otherwise look alike."""

import unicodedata

GLYPHS = {"\n": "↵", "\t": "→"}
SPACE = "␣"
HIDDEN = {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}
"""Unicode categories with no glyph of their own: controls, direction marks, private and unassigned characters, separators."""


JOINERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner: within a word, or between signs that form one, they say how neighbours join (Unicode 16, chapter 23.2)."""


def visible_text(text: str | None) -> str:
    """Show line breaks as ↵, tabs as →, spaces at either end as ␣, characters without a glyph as \\xNN or \\uNNNN; '' if there is no text."""
    text = text or ""
    core = text.strip(" ")
    if not core:
        return SPACE * len(text)
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return SPACE * before + visible_core(core) + SPACE * after


def visible_character(character: str) -> str:
    if character in GLYPHS:
        return GLYPHS[character]
    if character == "\u00a0" or unicodedata.category(character) in HIDDEN:
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character


def visible_line(text: str | None) -> str:
    """Show text within a line, as `visible_text` does but with plain spaces."""
    return visible_core(text or "")


def visible_lines(text: str) -> str:
    """Show text of several lines: line breaks and tabs stay as they are, and characters without a glyph are made visible."""
    return "".join(c if c.isprintable() or c in "\n\t" else visible_character(c) for c in text)


def visible_core(text: str) -> str:
    """Show each character; a joiner stays as it is if it joins, and is made visible if it stands alone."""
    return "".join(c if c in JOINERS and joins(text, i) else visible_character(c) for i, c in enumerate(text))


def joins(text: str, i: int) -> bool:
    """Tell whether both neighbours of a character are letters, marks or signs beyond ASCII."""
    return 0 < i < len(text) - 1 and all(c > "~" and unicodedata.category(c)[0] in "LMS" for c in (text[i - 1], text[i + 1]))
