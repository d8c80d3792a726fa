"""What is on the pages of a PDF file: text, characters with their places, fonts."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from pdfminer.high_level import extract_pages, extract_text
from pdfminer.layout import LAParams, LTChar, LTComponent, LTContainer, LTPage
from pdfminer.pdfpage import PDFPage
from pdfminer.pdftypes import resolve1


def text_of(path: Path) -> str:
    """Line by line as printed, cells of a row on one line."""
    return extract_text(str(path), laparams=LAParams(line_margin=0.01, char_margin=50, boxes_flow=None))


def pages(path: Path) -> list[LTPage]:
    return list(extract_pages(str(path)))


def characters(part: LTComponent) -> Iterator[LTChar]:
    """Every character in a part of a page, with its box in points from the page's lower left corner."""
    if isinstance(part, LTChar):
        yield part
    elif isinstance(part, LTContainer):
        for inner in part:
            yield from characters(inner)


def fonts(path: Path) -> list[dict]:
    """The font dictionaries of the file (PDF 32000-1, 9.6 and 9.7), those of drawings inside drawings too."""
    return [font for page in PDFPage.get_pages(BytesIO(path.read_bytes())) for font in fonts_in(page.resources)]


def fonts_in(resources: object) -> Iterator[dict]:
    found = resolve1(resources) or {}
    for font in (resolve1(found.get("Font")) or {}).values():
        yield resolve1(font)
    for inner in (resolve1(found.get("XObject")) or {}).values():
        yield from fonts_in(resolve1(inner).attrs.get("Resources"))


def is_whole(font: dict) -> bool:
    """Whether a font draws and reads the same on every machine: in the file, as outlines of its glyphs, with the characters they stand for."""
    (inner,) = resolve1(font["DescendantFonts"])
    inner = resolve1(inner)
    kinds = (font["Subtype"].name, font["Encoding"].name, inner["Subtype"].name)
    return kinds == ("Type0", "Identity-H", "CIDFontType2") and "ToUnicode" in font and "FontFile2" in resolve1(inner["FontDescriptor"])
