"""Text in SVG with one font. Marks that make tokens visible but that the font lacks are drawn, since a renderer would set the whole run in another font.

Widths are those of the font that comes with the renderer of figures, so that boxes fit the words in them wherever the drawing is opened.
"""

import re
import unicodedata
from xml.sax.saxutils import escape

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"

GROUPS = {
    222: "ijl", 260: "|", 278: " !,./:;I[\\]ft", 333: "()-`r", 334: "{}", 191: "'", 355: '"', 389: "*", 469: "^", 500: "Jcksvxyz", 584: "+<=>~",
    611: "FTZ", 667: "&ABEKPSVXY", 722: "CDHNRUw", 778: "GOQ", 833: "Mm", 889: "%", 944: "W", 990: "▲▼△▽", 1015: "@", 1000: "→←",
}  # fmt: skip
WIDTHS = {character: width / 1000 for width, characters in GROUPS.items() for character in characters}
"""Widths of the font's characters, in ems; digits and letters that are not listed have the width NORMAL."""

NORMAL, WIDE, DRAWN = 0.556, 1.0, 0.6
"""Widths in ems of other letters, of characters that fill a square, and of a mark that is drawn."""

MARKS = {
    "␣": ("M{0:.2f} {1:.2f}v{2:.2f}h{3:.2f}v-{2:.2f}", 0.08, -0.06, 0.17, 0.44),
    "↵": ("M{0:.2f} {1:.2f}m{3:.2f} 0v{2:.2f}h-{3:.2f}m0 0l{4:.2f} -{4:.2f}m-{4:.2f} {4:.2f}l{4:.2f} {4:.2f}", 0.08, -0.56, 0.34, 0.42),
}
"""Mark → its path, and in ems the start of the path (right of the pen, below the baseline), its height and its width."""

PARTS = re.compile(f"([{''.join(MARKS)}])")


def width_of(character: str) -> float:
    """Look up the width of a character, in ems."""
    if character in MARKS:
        return DRAWN
    base = unicodedata.normalize("NFD", character)[0]
    if unicodedata.combining(character):
        return 0
    return WIDTHS.get(base, WIDE if unicodedata.east_asian_width(character) in "WF" else NORMAL)


def advance(text: str, size: float) -> float:
    """Measure how far `text` moves the pen, in the units of `size`."""
    return sum(map(width_of, text)) * size


def draw_text(text: str, x: float, y: float, size: float, fill: str = "#111", anchor: str = "start", style: str = "") -> str:
    """Draw `text` as SVG with its baseline at y: runs of one font, and marks as lines. `style`: further attributes of the runs."""
    pen = x - advance(text, size) * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    parts = []
    for part in PARTS.split(text):
        parts.append(mark(part, pen, y, size, fill) if part in MARKS else run(part, pen, y, size, fill, style))
        pen += advance(part, size)
    return "".join(parts)


def mark(character: str, x: float, y: float, size: float, fill: str) -> str:
    path, right, below, high, wide = MARKS[character]
    # the text stands in the file too, for whoever searches it
    d = path.format(x + right * size, y + below * size, high * size, wide * size, 0.16 * size)
    return f'<path aria-label="{character}" d="{d}" fill="none" stroke="{fill}" stroke-width="{0.07 * size:.2f}"/>'


def run(text: str, x: float, y: float, size: float, fill: str, style: str) -> str:
    """Draw a run of text without marks; spaces at its ends move the pen and are not written, as a reader of SVG drops them."""
    core = text.strip(" ")
    if not core:
        return ""
    x += advance(text[: len(text) - len(text.lstrip(" "))], size)
    fit = f' textLength="{advance(core, size):.2f}" lengthAdjust="spacingAndGlyphs"' if len(core) > 1 or ord(core) > 0x17F else ""
    return f'<text x="{x:.2f}" y="{y:.2f}" font-family="{FONT}" font-size="{size:g}" fill="{fill}"{fit}{style}>{xml(core)}</text>'


def xml(text: str) -> str:
    """Escape text for XML, without characters that XML cannot hold, which `visible_text` shows as escapes."""
    return escape("".join(c for c in text if c >= " " and not 0xD800 <= ord(c) <= 0xDFFF and ord(c) not in (0xFFFE, 0xFFFF)))


TEXT = re.compile(r'<text text-anchor="(?P<anchor>\w+)" transform="(?P<place>[^"]*)" font-family="[^"]*" font-size="(?P<size>[\d.]+)px"(?P<rest>[^>]*)>'
                  r"(?P<text>[^<]*[" + "".join(MARKS) + r"][^<]*)</text>")  # fmt: skip
FILL = re.compile(r' fill="([^"]*)"')


def redraw_labels(svg: str) -> str:
    """Draw the marks in a chart's SVG, so that labels with marks stay in the font of the other labels."""
    return TEXT.sub(redraw_label, svg)


def redraw_label(label: re.Match[str]) -> str:
    from xml.sax.saxutils import unescape

    fill = FILL.search(label["rest"])
    style = FILL.sub("", label["rest"])
    written = draw_text(unescape(label["text"], {"&quot;": '"'}), 0, 0, float(label["size"]), fill[1] if fill else "#000", label["anchor"], style)
    return f'<g transform="{label["place"]}">{written}</g>'
