"""booktabs tables whose cells survive any token under pdflatex (T1 fonts, utf8), LuaLaTeX and XeLaTeX.

The traps: `\\\\` reads a following `*` or `[` as its argument, so every row begins with {}; `--` and `,,` are ligatures; straight quotes
turn curly; a character without a glyph stops pdflatex, so it is printed as U+XXXX there, and as itself where the engine has fonts for it (scripts.py).
"""

from collections.abc import Collection, Mapping

import polars as pl

from atlas.export.cells import display_cells
from atlas.export.scripts import order_from_left, pieces, runs, script_preamble, stretches

NEEDS = r"needs \usepackage{booktabs} and \usepackage[T1]{fontenc}"

ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",
    "]": "{]}",
    "␣": r"\textvisiblespace{}",
    "↵": r"$\hookleftarrow$",
    "→": r"$\rightarrow$",
    "λ": r"$\lambda$",
}

NO_GLYPH = set("\u00a0\u00ad\u0126\u0127\u0138\u013f\u0140\u0149\u0166\u0167\u017f")
"""Characters among U+00A1 to U+017E that T1 and TS1 lack (and the two that look like a space and a hyphen)."""

MORE_GLYPHS = set("–—‘’‚“”„†‡•…‹›€™")


LIGATED = set("-,<>'`?!")
"""Characters of which two become one sign in a font of some engine: two hyphens a dash, two commas a quote. Only pdfTeX separates them at an empty group."""


def tex(text: str) -> str:
    """Escape `text` so that each of its characters is printed. LaTeX that includes the result must come after the lines that script_preamble gives for it."""
    return "".join(tex_leftward(text[part]) if is_leftward else tex_runs(text[part]) for is_leftward, part in stretches(text))


def tex_leftward(text: str) -> str:
    parts = (tex_runs(part) if is_word else rf"\atlasamong{{{tex_runs(part)}}}{{{tex_runs(order_from_left(part))}}}" for is_word, part in pieces(text))
    return rf"\atlasleftward{{{''.join(parts)}}}"


def tex_runs(text: str) -> str:
    return "".join(tex_run(script, run) for script, run in runs(text, has_glyph))


def tex_run(script: str | None, run: str) -> str:
    if script is None:
        pairs = zip(run, [*run[1:], ""], strict=True)
        return "".join(tex_character(c) + (r"\kern0pt{}" if c in LIGATED and following in LIGATED else "") for c, following in pairs)
    return rf"\atlastext{{{script}}}{{{run}}}{{{''.join(f'{{{ord(character):04X}}}' for character in run)}}}"


def has_glyph(character: str) -> bool:
    """Tell whether every engine has a glyph for the character."""
    is_latin = " " <= character <= "~" or ("\u00a1" <= character <= "\u017e" and character not in NO_GLYPH)
    return is_latin or character in MORE_GLYPHS or character in ESCAPES


def tex_character(character: str) -> str:
    return ESCAPES.get(character, character) if has_glyph(character) else rf"\texttt{{U+{ord(character):04X}}}"


def tex_number(text: str) -> str:
    """Format a number for TeX: '-1.5' with a minus sign, '2.0e-07' as a power of ten."""
    mantissa, e, exponent = text.partition("e")
    if e and exponent.lstrip("+-").isdigit():
        return rf"${mantissa}\times10^{{{int(exponent)}}}$"
    return f"$-${text[1:]}" if text.startswith("-") else text


def latex_table(
    frame: pl.DataFrame, *, caption: str | None = None, label: str | None = None, comments: Mapping[str, str] | None = None, wide: Collection[str] = ()
) -> str:
    """Build a table float. `caption` and `label` are LaTeX source; `comments` become % lines above the table; cells of `wide` columns wrap."""
    numeric = [frame.schema[c].is_numeric() for c in frame.columns]
    columns = [[tex_number(cell) if is_number else tex(cell) for cell in display_cells(frame[c])] for c, is_number in zip(frame.columns, numeric, strict=True)]
    head = [f"% {NEEDS}", *(f"% {key}: {' '.join(value.split())}" for key, value in (comments or {}).items())]
    lines = [r"\begin{table}[t]", r"\centering"]
    lines += [rf"\caption{{{caption}}}"] if caption else []
    lines += [rf"\label{{{label}}}"] if label else []
    kinds = ["r" if n else rf"p{{{0.45 / len(wide):.2f}\linewidth}}" if c in wide else "l" for c, n in zip(frame.columns, numeric, strict=True)]
    lines += [rf"\begin{{tabular}}{{@{{}}{''.join(kinds)}@{{}}}}", r"\toprule"]
    lines += [table_row([tex(c.replace("_", " ")) for c in frame.columns]), r"\midrule"]
    lines += [table_row(list(cells)) for cells in zip(*columns, strict=True)]
    fragment = "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])
    return "\n".join([*head, *script_preamble(fragment), fragment])


def table_row(cells: list[str]) -> str:
    return "{}" + " & ".join(cells) + r" \\"
