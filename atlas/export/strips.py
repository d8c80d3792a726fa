"""Drawings for papers of texts with a coefficient at each token: SVG, and LaTeX with coloured boxes. Pure functions: numbers and text in, text out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import polars as pl

from atlas.export.latex import tex
from atlas.export.lettering import advance, draw_text, xml
from atlas.export.scripts import direction, stretches
from atlas.export.visible import visible_line

POSITIVE, NEGATIVE, PAPER = (241, 163, 64), (178, 171, 210), (255, 255, 255)
"""Colours of a scale, as red, green and blue: its two ends, which colour-blind readers tell apart (ColorBrewer's PuOr), and paper.

The ink on each has a contrast of 4.5:1 or more.
"""

INK, UNREAD = "#111", "#595959"

SIZE, LINE, GUTTER, PAD = 8.0, 12.0, 40.0, 3.0
"""Sizes in points: letters, height of a line, space at the left of a text, and padding around a figure."""

WIDTH = 468.0
"""Width of a figure in points: the text width of a page with margins of an inch. A column of two is half as wide."""

LONGEST = 400
"""Maximum number of tokens of a text that are drawn."""


@dataclass(frozen=True)
class Text:
    """Tokens of a text, and a signed coefficient at each, or None if it is not known.

    `peak`: index of the token in question, or the number of tokens if there is none; the model had not yet read the tokens after it.
    `said`: the line beneath the text, which names its source.
    """

    tokens: tuple[str, ...]
    coefficients: tuple[float | None, ...]
    peak: int
    said: str = ""


LONGEST_BOX = 40
"""Maximum characters of one box in LaTeX."""


def texts_of(triggers: pl.DataFrame) -> list[Text]:
    """Build the texts from rows of the question trigger_contexts.

    The line beneath a text names the document, and counts the other triggers in its sequence and those with the same text.
    """
    return [Text(tuple(row["tokens"]), tuple(row["coefficients"]), row["peak"], origin(row)) for row in triggers.iter_rows(named=True)]


def origin(row: Mapping[str, Any]) -> str:
    more = {"in this sequence": row["n_in_sequence"] - 1, "with the same text": row["n_folded"]}
    return " · ".join([str(row["document"]), *(f"{n} more {where}" for where, n in more.items() if n)])


Place = tuple[float, float, int, str]
"""x in points, line number from 0, index of the token, and the characters drawn there: a token longer than a line continues in the next line."""


def colour(value: float, largest: float) -> tuple[int, ...]:
    """Colour a value between paper and the end of the scale, by |value| / `largest`. Return red, green and blue, 0 to 255 each."""
    share = min(abs(value) / largest, 1.0) if largest > 0 else 0.0
    return tuple(round(p + (e - p) * share) for p, e in zip(PAPER, POSITIVE if value >= 0 else NEGATIVE, strict=True))


def largest_coefficient(texts: Sequence[Text]) -> float:
    return max((abs(c) for text in texts for c in text.coefficients if c is not None), default=0.0)


def peak_of(text: Text) -> float | None:
    """Find the coefficient at the text's peak; None if it is not known, or if the peak is after the last token."""
    return text.coefficients[text.peak] if text.peak < len(text.coefficients) else None


def number(value: float) -> str:
    """Format a number with its sign, + or −."""
    return f"{value:+.3f}".replace("-", "−")


def places(text: Text, left: float, width: float) -> Iterator[Place]:
    """Yield the places of each token; text that does not fit into a line continues in the next."""
    x, line = left, 0
    for i, token in enumerate(text.tokens[:LONGEST]):
        shown = visible_line(token)
        if x > left and x + advance(shown, SIZE) > width:
            x, line = left, line + 1
        while advance(shown, SIZE) > width - left:
            n = next(n for n in range(len(shown), 0, -1) if advance(shown[:n], SIZE) <= width - left or n == 1)
            yield x, line, i, shown[:n]
            shown, x, line = shown[n:], left, line + 1
        yield x, line, i, shown
        x += advance(shown, SIZE)


def leftward_places(placed: Iterable[Place], tokens: Sequence[str]) -> Iterator[Place]:
    """Yield the places of a text's tokens, after moving right-to-left tokens and their spaces so that they run from right to left in each line."""
    stretch_of = {i: part.start for is_leftward, part in stretches(tokens) if is_leftward for i in range(part.start, part.stop)}
    for (line, stretch), group in groupby(placed, lambda place: (place[1], stretch_of.get(place[2]))):
        same = list(group)
        if stretch is None:
            yield from same
            continue
        x, rest = same[0][0] + sum(advance(shown, SIZE) for *_, shown in same), iter(same)
        for unit in seen_from_the_left([shown for *_, shown in same]):
            x -= sum(advance(shown, SIZE) for shown in unit)
            at = x
            for shown in unit:
                yield at, line, next(rest)[2], shown
                at += advance(shown, SIZE)


def seen_from_the_left(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Yield units of right-to-left tokens, each with its spaces moved to the other side.

    The tokens of one number form one unit, since a number is read from the left; any other token is a unit by itself.
    """
    units: list[list[str]] = []
    for token in tokens:
        is_more = units and direction(token) == direction(units[-1][-1]) == "D" and token[0] != " " != units[-1][-1][-1]
        units[-1:] = [[*units[-1], token]] if is_more else [*units[-1:], [token]]
    for unit in units:
        before, after = (" " * (len(token) - len(cut)) for token, cut in ((unit[0], unit[0].lstrip(" ")), (unit[-1], unit[-1].rstrip(" "))))
        if "".join(unit).strip(" "):
            unit[0] = after + unit[0].lstrip(" ")
            unit[-1] = unit[-1].rstrip(" ") + before
        yield unit


def strips_svg(texts: Sequence[Text], *, largest: float | None = None, width: float = WIDTH, title: str = "") -> str:
    """Draw the texts beneath each other, shaded on one scale from 0 to `largest`, by default the greatest |coefficient| of all texts."""
    scale = largest_coefficient(texts) if largest is None else largest
    left = PAD + (GUTTER if any(peak_of(text) is not None for text in texts) else 0)
    parts, y = [], PAD
    for text in texts:
        placed = list(leftward_places(places(text, left, width - PAD), text.tokens[:LONGEST]))
        parts += [token_svg(text, place, y, scale) for place in placed]
        if (peak := peak_of(text)) is not None:
            parts.append(draw_text(number(peak), left - 6, y + 0.75 * LINE, SIZE, anchor="end"))
        y += LINE * (1 + max((line for _, line, _, _ in placed), default=0))
        if text.said:
            parts.append(draw_text(clip_text(visible_line(text.said), width - PAD - left, 0.85 * SIZE), left, y + 0.65 * LINE, 0.85 * SIZE, UNREAD))
            y += LINE
        y += 0.35 * LINE
    return page(width, y + PAD - 0.35 * LINE, parts, title)


def token_svg(text: Text, place: Place, top: float, largest: float) -> str:
    x, line, i, shown = place
    y, wide, coefficient = top + line * LINE, advance(shown, SIZE), text.coefficients[i]
    is_read = i <= text.peak
    box = f'<rect x="{x:.2f}" y="{y + 0.5:.2f}" width="{wide:.2f}" height="{LINE - 1:.2f}"'
    shade = f'{box} fill="rgb{colour(coefficient, largest)}"/>' if is_read and coefficient is not None and largest > 0 else ""
    outline = f'{box} fill="none" stroke="{INK}" stroke-width="0.8"/>' if i == text.peak else ""
    return shade + outline + draw_text(shown, x, y + 0.75 * LINE, SIZE, INK if is_read else UNREAD)


def clip_text(text: str, width: float, size: float) -> str:
    """Clip a text to `width` points at font size `size`, with an ellipsis for what is missing."""
    while advance(text, size) > width:
        text = text[:-2] + "…" if len(text) > 2 else ""
    return text


def page(width: float, height: float, parts: Sequence[str], title: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.2f}" height="{height:.2f}" viewBox="0 0 {width:.2f} {height:.2f}">'
    return f'{head}<title>{xml(title)}</title><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'


def strips_latex(texts: Sequence[Text], *, largest: float | None = None) -> str:
    """Set the texts as paragraphs of coloured boxes, for xcolor. Lines break between tokens."""
    scale = largest_coefficient(texts) if largest is None else largest
    hang = r"\hangindent=4.2em " if any(peak_of(text) is not None for text in texts) else ""
    lines = [r"\raggedright\sffamily\footnotesize\setlength{\fboxsep}{0.3pt}\setlength{\fboxrule}{0.4pt}"]
    for text in texts:
        peak = peak_of(text)
        gutter = rf"\makebox[3.2em][r]{{${peak:+.3f}$}}\quad" if peak is not None else ""
        boxes = [stretch_latex(text, part, scale, is_leftward) for is_leftward, part in stretches(text.tokens[:LONGEST])]
        said = rf"\\{{\scriptsize\color[gray]{{0.35}} {tex(visible_line(text.said))}}}" if text.said else ""
        joined = "\\allowbreak ".join(boxes)
        lines.append(rf"\noindent{hang}{gutter}{joined}{said}\par\smallskip")
    return "\n".join(lines)


def stretch_latex(text: Text, part: slice, largest: float, is_leftward: bool) -> str:
    """Set tokens as LaTeX boxes. Right-to-left tokens are set in that direction, each unit in two forms: as it is stored, and as it is seen from the left."""
    if not is_leftward or part.stop - part.start == 1:
        return "\\allowbreak ".join(token_latex(text, i, largest) for i in range(part.start, part.stop))
    among, i = [], part.start
    for unit in seen_from_the_left(text.tokens[part]):
        seen = replace(text, tokens=(*text.tokens[:i], *unit))
        boxes = ("".join(token_latex(of, j, largest) for j in range(i, i + len(unit))) for of in (text, seen))
        among.append(r"\atlasamong{{{}}}{{{}}}".format(*boxes))
        i += len(unit)
    return r"\atlasleftward{" + "\\allowbreak ".join(among) + "}"


def token_latex(text: Text, i: int, largest: float) -> str:
    shown, coefficient, is_read = visible_line(text.tokens[i]), text.coefficients[i], i <= text.peak
    core = shown.strip(" ")
    before, after = (" " * n for n in (len(shown) - len(shown.lstrip(" ")), len(shown) - len(shown.rstrip(" ")) if core else 0))
    # a space at the edge of a box is none to TeX
    inner = "\\strut" + before.replace(" ", "~") + "{}" + tex(core) + after.replace(" ", "~")
    if len(shown) > LONGEST_BOX:
        # TeX breaks no word in a box
        parts = [shown[start : start + LONGEST_BOX] for start in range(0, len(shown), LONGEST_BOX)]
        cut = Text(tuple(parts), (coefficient,) * len(parts), len(parts) if is_read else -1)
        return "\\allowbreak ".join(token_latex(cut, part, largest) for part in range(len(parts)))
    if not is_read:
        return rf"{{\color[gray]{{0.35}}{inner}}}"
    shade = colour(coefficient, largest) if coefficient is not None and largest > 0 else PAPER
    red, green, blue = shade
    if i == text.peak:
        return rf"\fcolorbox[RGB]{{17,17,17}}{{{red},{green},{blue}}}{{{inner}}}"
    return inner if shade == PAPER else rf"\colorbox[RGB]{{{red},{green},{blue}}}{{{inner}}}"
