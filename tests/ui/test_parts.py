"""The pure parts of the pages: coloured text, links, ages."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from schema.errors import NotAnAtlas
from tests.ui.conftest import read
from tests.ui.large_atlas import NASTY
from ui import blocks, tokens
from ui.prediction import lens
from ui.snapshot import age, latest


def test_the_strength_of_a_shade_by_hand() -> None:
    """0.05 + 0.95 · log10(1 + 9 · share): half of the largest log10(5.5) = 0.7404; beyond the largest is the end; nothing has no colour."""
    assert tokens.shade(1.0, 2.0) == "color-mix(in srgb,var(--positive) 75.3%,transparent)"
    assert tokens.shade(-2.0, 2.0) == "color-mix(in srgb,var(--negative) 100.0%,transparent)"
    assert tokens.shade(5.0, 2.0) == "color-mix(in srgb,var(--positive) 100.0%,transparent)"
    assert tokens.strength(0.0, 0.0) == tokens.strength(0.0, 1.0) == 0.0


def test_values_near_zero_are_told_from_none_and_from_each_other() -> None:
    """On white, in steps of 255: a twentieth of the largest was 0.7 of a step of red from white, and 4.6 of green."""
    faint, fainter = (255 - (255 - 163) * tokens.strength(share, 1.0) for share in (0.05, 0.01))
    assert 255 - fainter > 5 and fainter - faint > 8


def test_a_strip_marks_its_trigger_and_shades_what_is_known_before_it() -> None:
    spans = [attributes for tag, attributes in read(tokens.strip(["a", "b", "c", "d"], [1.0, None, 2.0, 3.0], peak=2, largest=2.0)).tags if tag == "bdi"]
    assert [s["class"] for s in spans] == ["", "", "peak", "unread"]
    assert ["style" in s for s in spans] == [True, False, True, False]
    assert [s.get("title") for s in spans] == ["+1", None, "+2", None]


def test_words_from_right_to_left_are_one_text_that_ends_where_one_from_left_to_right_begins() -> None:
    """With the spaces and numbers between; what is said comes behind, and nothing parts 17 from 90."""
    texts = ["a", "سل", "ام", " 17", "90", " ", "b", " ", "ש", "."]
    html = tokens.in_order(texts, [f"<{t}>" for t in texts], list("0123456789"))
    assert html == '<a>0<bdi dir="rtl"><سل><ام>< 17><90></bdi>1234< >5<b>6< >7<ש>8<.>9'


def test_colour_frame_and_grey_are_there_for_those_who_listen() -> None:
    texts = "".join(read(tokens.strip(["a", "b", "c", "d"], [1.0, None, -2.0, 3.0], peak=2, largest=2.0)).texts)
    assert texts == "−2.000a (+1) bc (trigger, -2) d (not read from here on) "


def test_each_token_is_isolated_so_that_hebrew_turns_nothing_round() -> None:
    found = read(tokens.strip([" שלום", " cat", " b"], [None, None, 1.0], peak=2, largest=1.0))
    assert [tag for tag, _ in found.tags].count("bdi") == 3
    assert "direction:ltr" in tokens.CSS


def test_text_follows_the_theme_and_is_no_white_slab_on_a_dark_page() -> None:
    for css in (tokens.CSS, lens.CSS):
        assert "#fff" not in css and "background:var(--paper)" in css
        assert "--paper:light-dark(rgb(255,255,255),rgb(28,30,36))" in css


def contrast(ink: tuple[int, ...], paper: tuple[int, ...]) -> float:
    """WCAG 2.2: relative luminances, lighter over darker."""

    def luminance(colour: tuple[int, ...]) -> float:
        linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_ink_can_be_read_on_every_shade_of_both_themes(theme: int) -> None:
    for end in (tokens.POSITIVE, tokens.NEGATIVE, tokens.PAPER):
        assert contrast(tokens.INK[theme], end[theme]) >= 4.5
    assert contrast(tokens.PALE[theme], tokens.PAPER[theme]) >= 4.5


@pytest.mark.parametrize("token", NASTY)
def test_a_token_is_text_and_nothing_else(token: str) -> None:
    row = {"tokens": [token, token], "coefficients": [None, 1.0], "peak": 1, "next_token": token, "document": token, "metadata": '{"x": "<b>"}'}
    found = read(tokens.trigger({**row, "n_folded": 2, "n_in_sequence": 4}, 1.0))
    assert {tag for tag, _ in found.tags} == {"div", "span", "bdi"}
    assert all(set(attributes) <= {"class", "style", "title", "dir"} for _, attributes in found.tags)
    shown = "".join(found.texts)
    assert shown.count(tokens.visible_line(token)) >= 2
    assert "3 more in this sequence · 2 more with the same text" in shown and "x <b>" in shown
    assert not any(ord(c) < 32 for c in shown)


def test_cells_show_every_character_and_end_somewhere() -> None:
    frame = blocks.readable(pl.DataFrame({"text": [" a\n", "x" * 5000, None], "list": [[" b", None], [], None], "n": [1, 2, 3]}))
    assert frame["text"].to_list() == ["␣a↵", "x" * 2048 + "…", None]
    assert frame["list"].to_list() == ["␣b", "", None]
    assert frame["n"].to_list() == [1, 2, 3]


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (timedelta(seconds=-5), "less than a minute"),
        (timedelta(seconds=59), "less than a minute"),
        (timedelta(minutes=1), "1 minute"),
        (timedelta(minutes=59, seconds=59), "59 minutes"),
        (timedelta(hours=2), "2 hours"),
        (timedelta(days=3, hours=5), "3 days"),
    ],
)
def test_ages_in_the_largest_unit_that_counts(passed: timedelta, said: str) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert age(now - passed, now) == said


def test_a_snapshot_is_told_by_its_file_and_what_lies_beside_it(tiny: Path) -> None:
    first = latest(str(tiny))
    os.utime(tiny, ns=(first.atlas[1], first.atlas[1] + 10**9))
    second = latest(str(tiny))
    tiny.with_name("tiny.annotations.duckdb").write_bytes(b"")
    third = latest(str(tiny))
    assert first.atlas != second.atlas and second.atlas == third.atlas
    assert set(second.beside) == {None} and len(set(third.beside) - {None}) == 1
    tiny.unlink()
    with pytest.raises(NotAnAtlas, match="any more"):
        latest(str(tiny))
