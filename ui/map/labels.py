"""Which things of the map are named, and where: no name overprints another or leaves the chart. Pure."""

from collections.abc import Sequence
from typing import NamedTuple
from unicodedata import east_asian_width

from atlas.export.visible import SPACE, visible_text

FONT, LINE, GAP = 11, 16, 8
"""px of a name's letters, of the room for a line, and between two names in one."""

LONGEST = 14
"""Characters of a token in a name."""

NARROW, WIDE = frozenset(" iljtfrI.,:;'|!()[]`·-/\\"), frozenset("mwMW@%—…⟨⟩&")
WIDTHS = {"narrow": 4.2, "wide": 11.0, "full": 12.0, "capital": 8.4, "other": 6.6}
"""px of a character: no less than fonts of screen and print have."""


class Area(NamedTuple):
    """Edges of a part of the plane."""

    x_min: float
    x_max: float
    y_min: float
    y_max: float


class Box(NamedTuple):
    """What a name takes, in px from the chart's left and upper edge."""

    left: float
    right: float
    top: float
    bottom: float

    def touches(self, other: "Box") -> bool:
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom


class NamedPoint(NamedTuple):
    """Something at a place in the plane, and what it may be called: the first name that fits."""

    x: float
    y: float
    names: Sequence[str]


class Label(NamedTuple):
    """The name that fits, '' for none, and what it takes."""

    text: str
    box: Box | None


def place(things: Sequence[NamedPoint], area: Area, width: float, height: float, *, above: float = 0) -> list[Label]:
    """Choose a name for each thing, those first that come first; its middle is `above` px above the thing.

    A chart that is wider and as high has room for them too.
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
    """Compute the px that a text takes at most."""
    return sum(map(width_of_character, text))


def width_of_character(character: str) -> float:
    if east_asian_width(character) in "WF" or ord(character) > 0x1F000:
        return WIDTHS["full"]
    kind = "narrow" if character in NARROW else "wide" if character in WIDE else "capital" if character.isupper() else "other"
    return WIDTHS[kind]


def names(tokens: Sequence[str | None]) -> list[str]:
    """List what a cell may be called: two of its tokens, or one.

    Words come before pieces of words, and what has no text or is no whole character is left out.
    """
    ordered = sorted((token for token in tokens if token is not None and not is_partial_character(token)), key=lambda token: not is_word(token))
    shown = [shorten_token(visible_text(token)).removeprefix(SPACE) or SPACE for token in ordered]
    return [" · ".join(shown[:n]) for n in (2, 1) if len(shown) >= n]


def is_word(token: str) -> bool:
    """Tell whether a token begins a word and has letters enough to be one."""
    return token[:1].isspace() and len(token.strip()) > 2 and token.strip().isalpha()


def is_partial_character(token: str) -> bool:
    """Tell whether a token is bytes that are no whole character: spelt out, or U+FFFD where an earlier release read them."""
    return "\ufffd" in token or (token.strip().startswith("⟨") and token.endswith("⟩"))


def shorten_token(token: str) -> str:
    return token if len(token) <= LONGEST else f"{token[: LONGEST - 1]}…"
