"""Names on the map: none touches another or leaves the chart, whatever the zoom and the width."""

from itertools import combinations

import numpy as np
import pytest

from ui.map.charts import FITTED, HEIGHT
from ui.map.labels import Area, Label, NamedPoint, is_word, names, place, width_of

WIDTH = 600
AREA = Area(0, WIDTH, 0, HEIGHT)
"""One unit a px."""


def texts(*things: tuple[float, float, list[str]], **options: float) -> list[str]:
    return [label.text for label in place([NamedPoint(*thing) for thing in things], AREA, WIDTH, HEIGHT, **options)]


def test_a_thing_has_its_first_name_that_fits_else_none() -> None:
    """A letter is 6.6 px wide, a space or a dot 4.2: and so is an f: 'abc · def' 49.8, 'abc' 19.8."""
    both = ["abc · def", "abc"]
    assert width_of("abc · def") == pytest.approx(49.8)
    assert texts((300, 300, both)) == ["abc · def"]
    assert texts((300, 300, both), (344, 300, both)) == ["abc · def", "abc"]
    assert texts((300, 300, both), (335, 300, both)) == ["abc · def", ""]
    assert texts((300, 300, both), (330, 316, both)) == ["abc · def", "abc · def"]


def test_a_name_does_not_leave_the_chart() -> None:
    assert texts((5, 300, ["abc"]), (WIDTH - 5, 100, ["abc"]), (300, 3, ["abc"]), (300, HEIGHT - 3, ["abc"])) == ["", "", "", ""]
    assert texts((300, HEIGHT - 12, ["abc"])) == ["abc"]
    assert texts((300, HEIGHT - 12, ["abc"]), above=10) == [""]


def clustered_points(seed: int, n: int) -> list[NamedPoint]:
    """Things in clusters, as on a map of values, with names of any script."""
    rng = np.random.default_rng(seed)
    words = ["nation", "Government · money", "漢字 · 語", "שלום", "L20N1100 war", "mmmmmmmmmmmmm…", "⟨F0 9F⟩", "i"]
    middles = rng.uniform(0, 10, (12, 2))
    spots = middles[rng.integers(0, 12, n)] + rng.normal(0, 0.8, (n, 2))
    return [NamedPoint(float(x), float(y), [words[rng.integers(0, 8)], words[rng.integers(0, 8)]]) for x, y in spots]


@pytest.mark.parametrize("width", [*FITTED, 450, 1400])
@pytest.mark.parametrize("area", [Area(-1, 11, -1, 11), Area(2, 5, 3, 6), Area(4, 6.5, 4, 6.5), Area(-50, 60, -50, 60)])
def test_no_two_names_touch_at_any_zoom(width: int, area: Area) -> None:
    """Each is held against every other with arithmetic of its own; as fitted to the next smaller of the widths, drawn on this one."""
    things = clustered_points(7, 400)
    fitted = max(w for w in FITTED if w <= width)
    labels = place(things, area, fitted, HEIGHT, above=10)
    drawn = []
    for thing, label in zip(things, labels, strict=True):
        if label.text:
            x = (thing.x - area.x_min) / (area.x_max - area.x_min) * width
            y = HEIGHT - (thing.y - area.y_min) / (area.y_max - area.y_min) * HEIGHT - 10
            drawn.append((x, y, width_of(label.text)))
    assert len(drawn) >= 1
    for (x, y, w), (x2, y2, w2) in combinations(drawn, 2):
        assert abs(y - y2) >= 16 or abs(x - x2) >= (w + w2) / 2 - 1e-9
    assert all(x - w / 2 >= -1e-9 and x + w / 2 <= width + 1e-9 and 0 <= y <= HEIGHT for x, y, w in drawn)


def test_a_wider_chart_has_as_many_names_or_more() -> None:
    things = clustered_points(3, 400)
    counts = [sum(bool(label.text) for label in place(things, Area(-1, 11, -1, 11), width, HEIGHT)) for width in FITTED]
    assert counts == sorted(counts) and counts[0] >= 10


def test_words_come_before_pieces_of_words_and_are_cut() -> None:
    assert names(["iago", "\ufffd", " nation", "rapy", " government"]) == ["nation · government", "nation"]
    assert names(["iago", "⟨F0 9F⟩"]) == ["iago"]
    assert names([" ⟨F0 9F⟩"]) == []
    assert names([" abcdefghijklmnop"]) == ["abcdefghijkl…"]
    assert names([]) == []
    assert [is_word(token) for token in (" the", "the", " a", " 12", " <b>")] == [True, False, False, False, False]


def test_nothing_to_name_is_no_label() -> None:
    assert place([NamedPoint(300, 300, [])], AREA, WIDTH, HEIGHT) == [Label("", None)]
