"""Placement of names on the map: no name overlaps another or leaves the chart. Pure functions."""

from collections.abc import Sequence
from typing import NamedTuple
from unicodedata import east_asian_width

from atlas.export.visible import SPACE, visible_text

FONT, LINE, GAP = 11, 16, 8
"""Sizes in px: letters of a name, height of a line, and gap between two names in one line."""

LONGEST = 14
"""Maximum characters of a token in a name."""

NARROW, WIDE = frozenset(" iljtfrI.,:;'|!()[]`·-/\\"), frozenset("mwMW@%—…⟨⟩&")
WIDTHS = {"narrow": 4.2, "wide": 11.0, "full": 12.0, "capital": 8.4, "other": 6.6}
"""Width of a character in px, by kind: no less than in the fonts of screen and print."""


class Area(NamedTuple):
    """Edges of a part of the plane."""

    x_min: float
    x_max: float
    y_min: float
    y_max: float


class Box(NamedTuple):
    """Rectangle that a name's label covers, in px from the chart's left and top edges."""

    left: float
    right: float
    top: float
    bottom: float

    def touches(self, other: "Box") -> bool:
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom


class NamedPoint(NamedTuple):
    """A point of the plane with its possible names, of which the first that fits is shown."""

    x: float
    y: float
    names: Sequence[str]


class Label(NamedTuple):
    """The name that fits and its rectangle; '' and None if none fits."""

    text: str
    box: Box | None


def place(things: Sequence[NamedPoint], area: Area, width: float, height: float, *, above: float = 0) -> list[Label]:
    """Choose a name for each thing, in their order; the middle of a name is `above` px above its thing.

    The names also fit into a wider chart of the same height.
    """
    taken: list[Box] = []
    found = []
    for thing in things:
        label = next(
            (label for name in thing.names if name and is_free(label := place_label(name, thing, area, width, height, above), taken, width, height)), None
        )
        if label is not None and label.box is not None:
            taken.append(label.box)
        found.append(label or Label("", None))
    return found


def place_label(name: str, thing: NamedPoint, area: Area, width: float, height: float, above: float) -> Label:
    across = (thing.x - area.x_min) / (area.x_max - area.x_min) * width
    down = (area.y_max - thing.y) / (area.y_max - area.y_min) * height - above
    half = (width_of(name) + GAP) / 2
    return Label(name, Box(across - half, across + half, down - LINE / 2, down + LINE / 2))


def is_free(label: Label, taken: Sequence[Box], width: float, height: float) -> bool:
    box = label.box
    inside = box is not None and box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height
    return inside and not any(box.touches(other) for other in taken)  # type: ignore[union-attr]


def width_of(text: str) -> float:
    """Compute the greatest width that a text may take, in px."""
    return sum(map(width_of_character, text))


def width_of_character(character: str) -> float:
    if east_asian_width(character) in "WF" or ord(character) > 0x1F000:
        return WIDTHS["full"]
    kind = "narrow" if character in NARROW else "wide" if character in WIDE else "capital" if character.isupper() else "other"
    return WIDTHS[kind]


def names(tokens: Sequence[str | None]) -> list[str]:
    """List the possible names of a cell: two of its tokens, then one.

    Words come before pieces of words. Tokens that have no text, or are no whole character, are left out.
    """
    ordered = sorted((token for token in tokens if token is not None and not is_partial_character(token)), key=lambda token: not is_word(token))
    shown = [shorten_token(visible_text(token)).removeprefix(SPACE) or SPACE for token in ordered]
    return [" · ".join(shown[:n]) for n in (2, 1) if len(shown) >= n]


def is_word(token: str) -> bool:
    """Tell whether a token begins a word and has letters enough to be one."""
    return token[:1].isspace() and len(token.strip()) > 2 and token.strip().isalpha()


def is_partial_character(token: str) -> bool:
    """Tell whether a token is bytes that form no whole character: spelt out in ⟨⟩, or U+FFFD where an earlier release read them."""
    return "\ufffd" in token or (token.strip().startswith("⟨") and token.endswith("⟩"))


def shorten_token(token: str) -> str:
    return token if len(token) <= LONGEST else f"{token[: LONGEST - 1]}…"
