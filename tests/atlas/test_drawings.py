"""Texts and grids as drawings: well formed, in one font, every token on the page whatever it is; and LaTeX that compiles."""

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest
import vl_convert

from atlas.export.drawings import Drawing, archive, to_pdf, to_svg, to_tex
from atlas.export.formats import Style, legible, render
from atlas.export.grids import Cell, grid_svg
from atlas.export.lettering import advance, redraw_labels
from atlas.export.rendering import render_figure
from atlas.export.scripts import script_preamble
from atlas.export.strips import Text, colour, strips_latex, strips_svg, texts_of
from tests.pdf import characters, fonts, pages, text_of

SVG = "{http://www.w3.org/2000/svg}"

HOSTILE = (
    " <b>",
    "&amp;",
    "]]>",
    "<!--",
    '"',
    "'",
    "\x00",
    "\n",
    "\t",
    "\u202e",
    "\ufffe",
    "\ud800",
    " %",
    "$x$",
    "\\end{figure}",
    "#_{}~^",
    "␣",
    "é",
    "שלום",
    " ",
)


def text(tokens: tuple[str, ...], coefficients: tuple[float | None, ...] = (), peak: int = 0, said: str = "") -> Text:
    return Text(tokens, coefficients or (1.0,) * len(tokens), peak, said)


def drawn(svg: str, tmp_path: Path) -> Path:
    path = tmp_path / "d.pdf"
    path.write_bytes(to_pdf(Drawing("d", "", svg)))
    return path


def boxes(svg: str) -> list[dict[str, str]]:
    return [dict(e.attrib) for e in ElementTree.fromstring(svg).iter(f"{SVG}rect")][1:]


def test_every_read_token_has_its_shade_and_the_peak_a_frame() -> None:
    svg = strips_svg([text((" a", " bb", " c", " d"), (0.0, -2.0, 4.0, 4.0), 2)])
    shaded = boxes(svg)
    # half of the way to violet, all of the way to orange, and the frame about that; what comes after the peak has none
    assert [b["fill"] for b in shaded] == ["rgb(255, 255, 255)", "rgb(216, 213, 232)", "rgb(241, 163, 64)", "none"]
    assert shaded[2]["x"] == shaded[3]["x"]
    # as wide as its letters are in the font: a space 278, b 556 of 1000
    assert float(shaded[1]["width"]) == pytest.approx(8 * (0.278 + 2 * 0.556), abs=0.01)
    assert "+4.000" in svg


def test_shades_are_on_the_scale_that_is_given() -> None:
    assert colour(5.0, 10.0) == (248, 209, 160)
    assert colour(50.0, 10.0) == (241, 163, 64)
    assert colour(1.0, 0.0) == (255, 255, 255)
    assert boxes(strips_svg([text(("a",), (5.0,))], largest=10.0))[0]["fill"] == "rgb(248, 209, 160)"


def test_a_long_text_goes_on_in_the_next_line_and_nothing_leaves_the_picture(tmp_path: Path) -> None:
    long = text((*[f" word{i}" for i in range(60)], "x" * 300, " end"), peak=61, said="from somewhere " * 30)
    path = drawn(strips_svg([long], width=234), tmp_path)
    (page,) = pages(path)
    placed = [c for c in characters(page) if not c.get_text().isspace()]
    assert len(placed) > 500
    assert all(c.x0 >= 0 and c.y0 >= 0 and c.x1 <= page.width and c.y1 <= page.height for c in placed)


def test_tokens_that_are_read_from_right_to_left_stand_so_and_numbers_of_several_as_ever() -> None:
    svg = strips_svg([text((" a", "של", " ום", " 17", "90", " .", "א", " b"), (None,) * 8, 8)])
    written = sorted((float(part.get("x", 0)), "".join(part.itertext())) for part in ElementTree.fromstring(svg).iter(f"{SVG}text"))
    assert [shown for _, shown in written] == ["a", "א", ".", "17", "90", "ום", "של", "b"]


def test_boxes_in_latex_are_in_the_order_of_what_is_read_and_what_is_seen() -> None:
    latex = strips_latex([text(("a", "של", " 17", "90"), (None,) * 4, 4)])
    assert r"\atlasleftward{\atlasamong{\strut{}\atlasleftward{\atlastext{hebrew}{של}{{05E9}{05DC}}}}{" in latex
    assert r"\atlasamong{\strut~{}17\strut{}90}{\strut{}17\strut{}90~}}" in latex


def test_hostile_tokens_are_text_and_nothing_else(tmp_path: Path) -> None:
    svg = strips_svg([text(HOSTILE, peak=len(HOSTILE) - 1, said="".join(HOSTILE[:11]))], title="<script>")
    root = ElementTree.fromstring(svg)
    assert {e.tag.removeprefix(SVG) for e in root.iter()} == {"svg", "title", "rect", "text", "path"}
    read = "".join(e.text or "" for e in root.iter(f"{SVG}text"))
    for shown in ("<b>", "&amp;", "]]>", "<!--", "\\x00", "\\u202e", "\\ufffe", "\\ud800", "$x$", "\\end{figure}", "#_{}~^"):
        assert shown in read
    page = text_of(drawn(svg, tmp_path))
    assert "\\u202e" in page and "\\end{figure}" in page


def test_a_drawing_has_one_font(tmp_path: Path) -> None:
    """␣ and ↵ are lines: the font lacks them, and another would be taken for the whole run."""
    path = drawn(strips_svg([text((" The", "␣money", "\n", "Ünï", "→"))]), tmp_path)
    assert {font["BaseFont"].name.partition("+")[2] for font in fonts(path)} == {"LiberationSans"}


@pytest.mark.thorough
def test_a_charts_labels_have_one_font_where_tokens_begin_with_a_space(tmp_path: Path) -> None:
    chart = alt.Chart(pl.DataFrame({"token": ["␣money", "b↵"], "v": [1, 2]})).mark_bar().encode(x="v:Q", y="token:N", color="token:N")
    chart = chart.configure(font="Liberation Sans, Arial, Helvetica, sans-serif")
    plain = vl_convert.vegalite_to_pdf(chart.to_dict())
    (tmp_path / "plain.pdf").write_bytes(plain)
    (tmp_path / "c.pdf").write_bytes(render_figure(chart, "pdf"))
    held = [{font["BaseFont"].name.partition("+")[2].removesuffix("-Bold") for font in fonts(tmp_path / name)} for name in ("plain.pdf", "c.pdf")]
    assert held[0] > {"LiberationSans"}
    assert held[1] == {"LiberationSans"}
    words = text_of(tmp_path / "c.pdf")
    assert words.count("money") == 2
    # labels at an axis end where they ended: beside the axis
    at = {c.get_text(): c.x1 for c in characters(pages(tmp_path / "c.pdf")[0]) if c.get_text() in ("y", "b")}
    assert at["y"] > 0


def test_a_label_without_marks_is_left_alone() -> None:
    label = '<text text-anchor="end" transform="translate(-7,10)" font-family="x" font-size="9px" fill="#000" opacity="1">{}</text>'
    assert redraw_labels(label.format("money")) == label.format("money")
    moved = redraw_labels(label.format("␣a&lt;"))
    # 0.6 em of the mark, 0.556 of a, 0.584 of <, all to the left of where the label ended
    assert f'x="{-9 * (0.556 + 0.584):.2f}"' in moved
    assert "a&lt;</text>" in moved and 'opacity="1"' in moved
    assert advance("␣a<", 9) == pytest.approx(9 * 1.74)


def test_a_grid_has_a_shade_and_a_token_in_each_cell(tmp_path: Path) -> None:
    svg = grid_svg(["attn", "FFN"], [("0", [Cell(" the", 1.0, "▲"), None]), ("1", [Cell("x" * 200, 0.5), Cell("<b>")])], title="g")
    assert [b["fill"] for b in boxes(svg)] == ["rgb(241, 163, 64)", "rgb(248, 209, 160)", "rgb(255, 255, 255)"]
    page = text_of(drawn(svg, tmp_path))
    assert "the" in page and "<b>" in page and "…" in page and "▲" in page


def test_latex_of_boxes_compiles_and_has_every_token(page_text: Callable[[str], str]) -> None:
    tokens = tuple(t for t in HOSTILE if t != "\ud800")
    source = strips_latex([text(tokens, peak=4, said="50% & more"), text((" plain", " text", " here"), (None, -1.0, 2.0), 1)])
    read = page_text(document(*script_preamble(source), source))
    plainest = "".join(read.split())
    for shown in ("<b>", "]]>", "\\x00", "\\u202e", "%", "$x$", "\\end{figure}", "#_{}~^", "é", "U+05E9", "50%&more", "plain", "here"):
        assert shown in plainest


def document(*parts: str) -> str:
    head = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{textcomp,lmodern,xcolor,graphicx,booktabs}\pagestyle{empty}\begin{document}"
    return "\n".join([head, *parts, r"\end{document}", ""])


def test_a_figure_environment_compiles_with_caption_and_provenance(page_text: Callable[[str], str]) -> None:
    drawing = Drawing(
        "strip", "Texts of 100% <b> & $x_1$", strips_svg([text((" a",))]), strips_latex([text((" a", " word"), peak=1)]), {"question": "q", "n": 3}
    )
    tex = to_tex(drawing, is_native=True)
    assert tex.splitlines()[1:3] == ["% question: q", "% n: 3"]
    assert "Figure1:Textsof100%<b>&$x_1$" in "".join(page_text(document(tex)).split())
    assert r"\includegraphics[width=\linewidth]{strip.pdf}" in to_tex(drawing)


def test_a_caption_of_several_lines_is_one_paragraph(page_text: Callable[[str], str]) -> None:
    drawing = Drawing("x", "Above,\n\nand below:\r\nthe end.", strips_svg([text((" a",))]), latex="boxes")
    source = to_tex(drawing, is_native=True)
    assert r"\caption{Above, and below: the end.}" in source
    assert "Above, and below: the end." in page_text(document(source))


def test_an_archive_has_each_drawing_under_a_name_of_its_own() -> None:
    svg = strips_svg([text((" a",))])
    drawings = [Drawing("a b/../c", "first", svg, "boxes", {"sql": "x"}), Drawing("a b/../c", "second", svg), Drawing("", "third", svg)]
    with zipfile.ZipFile(io.BytesIO(archive(drawings))) as folder:
        names = folder.namelist()
        assert [n for n in names if n.endswith(".pdf")] == ["a-b-c.pdf", "a-b-c-2.pdf", "figure.pdf"]
        assert [n for n in names if n.endswith("boxes.tex")] == ["a-b-c.boxes.tex"]
        assert folder.read("a-b-c.pdf").startswith(b"%PDF")
        tex = folder.read("figures.tex").decode()
        assert [tex.index(said) for said in ("first", "second", "third")] == sorted(tex.index(said) for said in ("first", "second", "third"))
        assert tex.count(r"\includegraphics") == 3


def test_an_svg_carries_its_caption_and_provenance() -> None:
    root = ElementTree.fromstring(to_svg(Drawing("d", "A <caption>", strips_svg([text((" a",))]), "", {"model": {"name": "m & m"}})))
    assert [(e.tag.removeprefix(SVG), e.text) for e in root][:2] == [("desc", "A <caption>"), ("metadata", '{"model": {"name": "m & m"}}')]


TOKENS, COEFFICIENTS = ["The", " [red]", " cat", *[" x"] * 6], [0.5, 1.0, 4.25, *[None] * 6]
TRIGGERS = pl.DataFrame(
    {"rank": [1], "coefficient": [4.25], "n_folded": [2], "tokens": [TOKENS], "coefficients": [COEFFICIENTS], "peak": [2], "document": ["a.txt"]}
)


def test_a_drawn_trigger_says_how_many_more_there_are() -> None:
    both, of_sequence, alone = texts_of(pl.concat(TRIGGERS.with_columns(n_folded=f, n_in_sequence=n) for f, n in ((2, 18), (0, 2), (0, 1))))
    assert both.said == "a.txt · 17 more in this sequence · 2 more with the same text"
    assert (of_sequence.said, alone.said) == ("a.txt · 1 more in this sequence", "a.txt")


def test_triggers_in_latex_are_words_and_not_lists_of_numbers(page_text: Callable[[str], str]) -> None:
    source = render(TRIGGERS, "latex", Style()).decode()
    assert "rank & coefficient & text & document" in source
    assert "0.50" not in source
    assert "The[red][cat]xxxx" in "".join(page_text(document(source)).split())
    other = pl.DataFrame({"tokens": [["a"]], "n": [1]})
    assert legible(other) is other


def test_a_text_in_words_has_ten_tokens_before_the_peak_and_four_after_it() -> None:
    tokens = [f" t{i}" for i in range(20)]
    shown = legible(pl.DataFrame({"rank": [1, 2], "tokens": [tokens, tokens[9:16]], "coefficients": [[0.5] * 20, [0.5] * 7], "peak": [12, 3]}))
    assert shown["text"].to_list() == ["… t2 t3 t4 t5 t6 t7 t8 t9 t10 t11 [t12] t13 t14 t15 t16 …", "t9 t10 t11 [t12] t13 t14 t15"]


def test_in_latex_the_peak_is_framed_and_what_was_not_yet_read_is_grey() -> None:
    latex = strips_latex([text((" a", " b", " c"), (0.5, 1.0, 0.25), 1)])
    before, framed, unread = (box[0] for box in re.finditer(r"\\colorbox.*?a}|\\fcolorbox.*?b}|{\\color\[gray\]{0.35}.*?c}", latex))
    assert framed.startswith(r"\fcolorbox[RGB]{17,17,17}") and unread == r"{\color[gray]{0.35}\strut~{}c}" and "fcolorbox" not in before
