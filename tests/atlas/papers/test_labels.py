"""Labels of charts: one line, bounded, and only characters that the bundled font draws."""

import re
from pathlib import Path

import altair as alt
import polars as pl
import pytest

from atlas.export.rendering import render_figure
from atlas.papers.labels import LONGEST, SAFE, label, labels
from tests.pdf import fonts, text_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "·the"),
        ("\n", "\\n"),
        ("a\tb", "a\\tb"),
        ("café", "café"),
        ("Привет", "Привет"),
        ("αβ", "αβ"),
        ("日本", "U+65E5U+672C"),
        ("🙂", "U+1F642"),
        ("שלום", "U+05E9U+05DCU+05D5U+05DD"),
        ("\u202e", "\\u202e"),
        ("\ufffd", "U+FFFD"),
        ("", ""),
    ],
)
def test_a_label_holds_only_what_the_font_has(text: str, shown: str) -> None:
    assert label(text) == shown


def test_a_long_label_ends_in_an_ellipsis() -> None:
    assert label("x" * LONGEST) == "x" * LONGEST
    assert label("x" * (LONGEST + 1)) == "x" * (LONGEST - 1) + "…"
    # a character that takes several is left out whole
    assert label("日" * 9) == "U+65E5" * 3 + "…"


def test_several_texts_make_one_label() -> None:
    assert labels([" the", " of", "日"]) == "·the ·of U+65E5"
    assert labels([" the"] * 9) == "·the ·the ·the ·the ·th…"
    assert labels([]) == ""


@pytest.mark.thorough
def test_every_character_said_to_be_safe_is_drawn_in_the_bundled_font(tmp_path: Path) -> None:
    """A character that it lacks would be taken from some other font of the machine, or be blank."""
    characters = [chr(c) for low, high in SAFE for c in range(low, high + 1) if c != 0x20]
    frame = pl.DataFrame({"row": [i // 40 for i in range(len(characters))], "at": [i % 40 for i in range(len(characters))], "text": characters})
    drawn = alt.Chart(frame).mark_text(font="Liberation Sans").encode(x=alt.X("at:O", axis=None), y=alt.Y("row:O", axis=None), text="text:N")
    (tmp_path / "t.pdf").write_bytes(render_figure(drawn, "pdf"))
    names = {re.sub(r"^[A-Z]{6}\+", "", font["BaseFont"].name) for font in fonts(tmp_path / "t.pdf")}
    assert names <= {"LiberationSans", "LiberationSans-Bold"}
    text = text_of(tmp_path / "t.pdf")
    assert not set(characters) - set(text)


def test_of_a_long_text_no_more_is_looked_at_than_a_label_has() -> None:
    long = "x" * 10**7
    assert label(long) == label("x" * 100) and labels([long, long]) == labels(["x" * 100])
