r"""Text that pdfTeX's fonts lack: printed as characters if the document is set by LuaLaTeX or XeLaTeX with fontspec, and as U+XXXX elsewhere.

A run of one script is \atlastext{script}{the characters}{their code points}. One fragment serves every engine, without an option.
If the font lacks a character of a run, the run is printed as code points there too, since TeX would leave the character out.

Words that are read from right to left, with the text between them, are \atlasleftward{words in the order in which they are read}. Other text among them,
such as a number, is \atlasamong{the characters}{the same characters in their order on the page, from the left}.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple
from unicodedata import bidirectional

from atlas.export.visible import JOINERS


class Script(NamedTuple):
    """Ranges of code points that are written alike, and how fontspec sets them.

    fonts: fonts that have these code points; the first one installed is taken. name: fontspec's name of the script; '' if fontspec does not need it.
    """

    ranges: tuple[tuple[int, int], ...]
    fonts: tuple[str, ...]
    name: str = ""


SCRIPTS = {
    "hangul": Script(((0x1100, 0x11FF), (0x3130, 0x318F), (0xAC00, 0xD7A3)), ("Noto Serif CJK KR", "Noto Sans CJK KR", "NanumMyeongjo", "UnBatang")),
    "cjk": Script(
        ((0x2E80, 0x312F), (0x31A0, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF00, 0xFFEF)),
        ("Noto Serif CJK SC", "Noto Sans CJK SC", "Source Han Serif SC", "Droid Sans Fallback"),
    ),
    "arabic": Script(((0x0600, 0x06FF), (0x0750, 0x077F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC)), ("Noto Naskh Arabic", "Amiri", "DejaVu Sans"), "Arabic"),
    "hebrew": Script(((0x0591, 0x05F4), (0xFB1D, 0xFB4F)), ("Noto Serif Hebrew", "Noto Sans Hebrew", "DejaVu Sans"), "Hebrew"),
    "devanagari": Script(((0x0900, 0x097F),), ("Noto Serif Devanagari", "Noto Sans Devanagari", "FreeSerif"), "Devanagari"),
    "thai": Script(((0x0E01, 0x0E5B),), ("Noto Serif Thai", "Noto Sans Thai", "FreeSerif"), "Thai"),
    "other": Script(
        ((0x0180, 0x02AF), (0x0370, 0x052F), (0x0531, 0x0586), (0x10A0, 0x10FF), (0x1E00, 0x1FFF), (0x2070, 0x22FF), (0x2500, 0x26FF), (0x1F600, 0x1F64F)),
        ("DejaVu Sans", "FreeSerif"),
    ),
}
"""Scripts with known fonts. Characters of other scripts are printed as U+XXXX in every engine, since no font is known that has them all."""

CHOICE = r"""\ifdefined\atlastext\else
\def\atlascodes#1{\ifx\atlasend#1\else\texttt{U+#1}\expandafter\atlascodes\fi}
\protected\def\atlastext#1#2#3{\atlascodes#3\atlasend}
\protected\def\atlasleftward#1{#1}
\protected\def\atlasamong#1#2{#1}
\ifdefined\fontspec
\def\atlasfont#1#2#3{\ifcsname atlas#1\endcsname\else\IfFontExistsTF{#2}{\expandafter\newfontfamily\csname atlas#1\endcsname{#2}[\atlasshape#3]}{}\fi}
\ifdefined\directlua\def\atlasshape{Renderer=HarfBuzz,}\def\atlasright#1{\leavevmode\bgroup\textdir TLT #1\egroup}
\protected\def\atlasleftward#1{\leavevmode\bgroup\textdir TRT #1\egroup}
\else\def\atlasshape{}\TeXXeTstate=1 \def\atlasright#1{\beginL#1\endL}\protected\def\atlasleftward#1{\beginR#1\endR}\fi
\protected\def\atlasamong#1#2{\atlasright{#2}}
\def\atlashas#1{\ifx\atlasend#1\else\iffontchar\font"#1 \else\def\atlaslacks{1}\fi\expandafter\atlashas\fi}
\protected\def\atlastext#1#2#3{\bgroup\def\atlaslacks{0}\ifcsname atlas#1\endcsname\csname atlas#1\endcsname\atlashas#3\atlasend\else\def\atlaslacks{1}\fi
\ifnum\atlaslacks=0 #2\else\atlasright{\atlascodes#3\atlasend}\fi\egroup}
\fi\fi"""

LEFTWARD = {"arabic", "hebrew"}
"""Scripts that are read from right to left, except for their digits."""

MIRRORED = dict(zip("()[]{}<>«»‹›", ")(][}{><»«›‹", strict=True))

NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*|.", re.DOTALL)
"""Pattern of a unit that keeps its order among words that are read from right to left: a number, or a single sign."""


def script_of(character: str) -> str | None:
    code = ord(character)
    return next((name for name, script in SCRIPTS.items() if any(low <= code <= high for low, high in script.ranges)), None)


def runs(text: str, is_plain: Callable[[str], bool]) -> Iterator[tuple[str | None, str]]:
    """Yield text in stretches of one script each, joiners among their letters; the script is None for plain characters, and for those of no known script."""
    scripts = [None if is_plain(character) else script_of(character) for character in text]
    for i, character in enumerate(text):
        if character in JOINERS and 0 < i < len(text) - 1 and scripts[i - 1] == scripts[i + 1]:
            scripts[i] = scripts[i - 1]
    at = 0
    for script, same in groupby(scripts):
        n = sum(1 for _ in same)
        yield script, text[at : at + n]
        at += n


def direction(text: str | None) -> str:
    """Tell the direction of a text: R, right to left; L, left to right (None, the end of a line, too); D, a number; N, neutral, as the text around it."""
    kinds = {kind_of(character) for character in text or ""}
    return next((kind for kind in "LRD" if kind in kinds), "N")


def kind_of(character: str) -> str:
    kind = bidirectional(character)
    is_mark = kind == "NSM" and script_of(character) in LEFTWARD
    return "R" if is_mark else {"R": "R", "AL": "R", "L": "L", "B": "L", "EN": "D", "AN": "D"}.get(kind, "N")


def stretches(parts: Sequence[str | None]) -> Iterator[tuple[bool, slice]]:
    """Yield the stretches of a line that are read from right to left (True) or not (False), as slices of its parts.

    A stretch from right to left begins at a part in a right-to-left script. It runs to the last such part, or to a number after that one, before the next part
    that is read from left to right (Unicode's UAX 9, in a line from left to right).
    """
    at = 0
    for found in re.finditer("R(?:[RDN]*[RD])?", "".join(map(direction, parts))):
        if found.start() > at:
            yield False, slice(at, found.start())
        yield True, slice(found.start(), found.end())
        at = found.end()
    if at < len(parts):
        yield False, slice(at, len(parts))


def pieces(leftward: str) -> Iterator[tuple[bool, str]]:
    """Yield the pieces of a stretch that is read from right to left, in order: words and spaces (True), or other text, such as numbers or brackets (False)."""
    for is_word, same in groupby(leftward, lambda c: c == " " or c in JOINERS or (script_of(c) in LEFTWARD and not c.isdigit())):
        yield is_word, "".join(same)


def order_from_left(among: str) -> str:
    """Reorder text among words that are read from right to left into its order on the page, from the left: brackets mirrored, numbers as they are."""
    return "".join(MIRRORED.get(part, part) for part in reversed(NUMBER.findall(among)))


def script_preamble(fragment: str) -> list[str]:
    r"""Build the lines that must come before a fragment with \atlastext, and that define how it is set; none if the fragment has no \atlastext."""
    used = [name for name in SCRIPTS if rf"\atlastext{{{name}}}" in fragment]
    if not used:
        return []
    lines = [r"% other scripts stand as characters under LuaLaTeX or XeLaTeX with \usepackage{fontspec}, and as U+XXXX under pdfLaTeX", CHOICE]
    for name in used:
        shape = f"Script={SCRIPTS[name].name}" if SCRIPTS[name].name else ""
        fonts = "".join(rf"\atlasfont{{{name}}}{{{font}}}{{{shape}}}" for font in SCRIPTS[name].fonts)
        lines.append(rf"\ifdefined\atlasfont{fonts}\fi")
    return lines
