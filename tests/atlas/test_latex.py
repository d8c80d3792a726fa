"""LaTeX tables compile under pdflatex and lualatex and print every token as it is."""

import unicodedata
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from atlas.export.latex import MORE_GLYPHS, NO_GLYPH, latex_table, tex, tex_number
from atlas.export.scripts import script_preamble
from tests.pdf import characters, pages

NASTY = {
    # token: what the page shows
    "*": "*",
    "[": "[",
    "]": "]",
    "[5pt]": "[5pt]",
    "\\": "\\",
    "_": "_",
    "%": "%",
    "$": "$",
    "&": "&",
    "#": "#",
    "{": "{",
    "}": "}",
    "~": "~",
    "^": "^",
    "<": "<",
    ">": ">",
    "<<": "<<",
    "|": "|",
    "--": "--",
    "---": "---",
    ",,": ",,",
    "''": "''",
    "``": "``",
    '"': '"',
    "?`": "?`",
    "\\hline": "\\hline",
    "\\\\": "\\\\",
    "日本": "U+65E5U+672C",
    "🙂": "U+1F642",
    "\ufffd": "U+FFFD",
    "α": "U+03B1",
    "λ": "λ",
    "é": "é",
    "ß": "ß",
    "café": "café",
    "ħ": "U+0127",
    "“x”": "“x”",
    "n’t": "n’t",
    "…": "…",
    "x–y—z": "x–y—z",
    "@": "@",
    "{\\bf x}": "{\\bf x}",
    "fi": "fi",
    "/*": "/*",
    "\x00": "\\x00",
    "\u200b": "\\u200b",
    "€": "€",
}


def plainest(text: str) -> str:
    """Without spaces, and … as three dots, as the page's text layer has it."""
    return "".join(unicodedata.normalize("NFKC", text).split())


FONTS = {"pdflatex": r"\usepackage{lmodern}\usepackage[T1]{fontenc}", "lualatex": r"\usepackage{fontspec}"}


def document(*tables: str, engine: str = "pdflatex") -> str:
    preamble = rf"\documentclass{{article}}\usepackage[paperheight=80in]{{geometry}}{FONTS[engine]}\usepackage{{booktabs}}\pagestyle{{empty}}"
    # a word that is parted at the end of a line is not read back as one
    preamble += r"\hyphenpenalty=10000\exhyphenpenalty=10000"
    return "\n".join([preamble, r"\begin{document}", *tables, r"\end{document}", ""])


def printed(text: str) -> list[tuple[str, int]]:
    """Rows of a table of tokens and numbers."""
    rows = [line.rsplit(maxsplit=1) for line in text.splitlines() if line.strip("\x0c ") and line.split() != ["token", "n"]]
    return [(plainest(shown), int(n)) for shown, n in rows]


def test_every_token_is_on_the_page_as_it_is(page_text: Callable[..., str]) -> None:
    frame = pl.DataFrame({"token": list(NASTY), "n": range(len(NASTY))})
    assert printed(page_text(document(latex_table(frame)))) == [(plainest(shown), i) for i, shown in enumerate(NASTY.values())]


WORDS = ["首都です", "می\u200cخواهم", "שלום", "नमस्ते", "สวัสดี", "α→β λ", "привет", "日本 Latin, --x", "🙂"]


@pytest.mark.thorough
def test_words_of_other_scripts_are_characters_where_the_engine_has_fonts_for_them(page_text: Callable[..., str]) -> None:
    """The same fragment under both engines, twice in one document."""
    words = {word: word.replace("\u200c", "") for word in WORDS} | {token: token for token in NASTY if token.isascii() and token.isprintable()}
    # in lualatex its own font has them all but the smile, which no font that is asked for may have
    del words["🙂"]
    table = latex_table(pl.DataFrame({"token": [*words], "n": range(len(words))}))
    rows = [(plainest(shown), i) for i, shown in enumerate(words.values())]
    assert printed(page_text(document(table, table, engine="lualatex"), "lualatex")) == rows * 2
    codes = ["".join(f"U+{ord(c):04X}" if c > "~" and c not in "→λ" else c for c in word) for word in WORDS]
    lines = page_text(document(*script_preamble(table), *(rf"{tex(word)} \par" for word in WORDS))).splitlines()
    assert [plainest(line) for line in lines if line.strip("\x0c ")] == list(map(plainest, codes))


def test_letters_are_joined_and_words_from_right_to_left_in_their_order(page_text: Callable[..., str], tmp_path: Path) -> None:
    source = tex("سلام (دنیا)، ٣٤ 1790 x क्ष")
    page_text(document(*script_preamble(source), source, engine="lualatex"), "lualatex")
    (page,) = pages(tmp_path / "t.pdf")
    glyphs = sorted(characters(page), key=lambda glyph: glyph.x0)
    # from the left; lam and alef are one glyph at one place, and so are both letters of Devanagari
    assert plainest("".join(glyph.get_text() for glyph in glyphs)) == "1790٣٤،(ایند)ملاسxक्ष"
    lam = next(i for i, glyph in enumerate(glyphs) if glyph.get_text() == "ل")
    assert glyphs[lam].x0 == glyphs[lam + 1].x0 and glyphs[-1].get_text() == "क्ष"


def test_what_the_font_lacks_stands_as_its_code_point_and_is_not_left_out(page_text: Callable[..., str]) -> None:
    # of Greek's block, and no character
    source = tex("a\u0378b")
    assert page_text(document(*script_preamble(source), source, engine="lualatex"), "lualatex").strip() == "aU+0378b"


def test_a_leading_space_is_printed() -> None:
    assert tex("␣the") == r"\textvisiblespace{}the"
    assert latex_table(pl.DataFrame({"token": [" the"]})).count(r"\textvisiblespace{}the") == 1


def test_every_character_said_to_have_a_glyph_compiles(page_text: Callable[..., str]) -> None:
    characters = [chr(c) for c in range(0x21, 0x17F) if not 0x7F <= c < 0xA1] + sorted(MORE_GLYPHS)
    assert page_text(document(*(f"{tex(c)} \\par" for c in characters)))


def test_latin_1_and_typographic_characters_are_on_the_page_as_they_are(page_text: Callable[..., str]) -> None:
    characters = [chr(c) for c in range(0x21, 0x100) if not 0x7F <= c < 0xA1] + sorted(MORE_GLYPHS)
    text = page_text(document(*(f"x{tex(c)}x \\par" for c in characters)))
    expected = [f"xU+{ord(c):04X}x" if c in NO_GLYPH else f"x{plainest(c)}x" for c in characters]
    assert [plainest(line) for line in text.splitlines() if line.strip("\x0c ")] == expected


def test_caption_label_and_comments_are_placed(page_text: Callable[..., str]) -> None:
    frame = pl.DataFrame({"layer": [1], "max_score": [-0.25]})
    source = latex_table(frame, caption=r"Scores, $s > 0$.", label="tab:s", comments={"model": "tiny\n100% of it"})
    assert source.splitlines()[:7] == [
        r"% needs \usepackage{booktabs} and \usepackage[T1]{fontenc}",
        "% model: tiny 100% of it",
        r"\begin{table}[t]",
        r"\centering",
        r"\caption{Scores, $s > 0$.}",
        r"\label{tab:s}",
        r"\begin{tabular}{@{}rr@{}}",
    ]
    text = page_text(document(source))
    words = " ".join(text.split())
    assert words == "Table 1: Scores, s > 0. layer max score 1 −0.2500"


def test_every_row_is_safe_from_the_line_break_before_it() -> None:
    rows = [line for line in latex_table(pl.DataFrame({"a": ["*", "["]})).splitlines() if line.endswith(r"\\")]
    assert all(row.startswith("{}") for row in rows)


@pytest.mark.parametrize(
    ("shown", "number"),
    [("1.500", "1.500"), ("-1.5", "$-$1.5"), ("2.0e-07", r"$2.0\times10^{-7}$"), ("-1.0e+10", r"$-1.0\times10^{10}$"), ("–", "–"), ("nan", "nan")],
)
def test_numbers_have_a_minus_sign_and_powers_of_ten(shown: str, number: str) -> None:
    assert tex_number(shown) == number
