"""How pages are dressed, in a real browser: what stands where, how wide it is, and that it can be read on a light page and on a dark one."""

from collections.abc import Callable, Iterator
from io import BytesIO

import pytest
from PIL import Image, ImageStat
from playwright.sync_api import Browser, Locator, Page, expect

from tests.ui.browser import Server, settled

pytestmark = pytest.mark.thorough

Visited = Callable[..., Page]

CHART = "[data-testid=stVegaLiteChart]"

SCHEMES = pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])


@pytest.fixture
def visited(chromium: Browser, tiny_server: Server) -> Iterator[Visited]:
    """A page of the tiny atlas in a window of its own: visited("map", width=390, scheme="dark")."""
    windows = []

    def opened(address: str, *, width: int = 1024, scheme: str = "light") -> Page:
        windows.append(chromium.new_context(viewport={"width": width, "height": 768}, reduced_motion="reduce", color_scheme=scheme))  # type: ignore[arg-type]
        page = windows[-1].new_page()
        page.goto(f"{tiny_server.url}/{address}")
        settled(page)
        return page

    yield opened
    for window in windows:
        window.close()


def drawn(part: Locator) -> Image.Image:
    """What is seen of a part, in grey."""
    expect(part).to_be_visible()
    return Image.open(BytesIO(part.screenshot())).convert("L")


@pytest.mark.parametrize("width", [1024, 390])
def test_the_rooms_stand_in_one_line_and_the_title_right_beneath(visited: Visited, width: int) -> None:
    page = visited("search", width=width)
    rooms = page.locator(".bar ul a")
    expect(rooms).to_have_count(5)
    lines = rooms.evaluate_all("all => all.map(a => a.getBoundingClientRect().top)")
    assert max(lines) - min(lines) < 1, lines
    bar, title = page.locator(".bar").bounding_box(), page.locator("h1").first
    assert bar is not None
    # the letters, whatever stands about them; a former design had 85 px of void there, and titles of 44
    letters = title.evaluate("h => { const r = document.createRange(); r.selectNodeContents(h); return r.getBoundingClientRect().top }")
    assert letters - (bar["y"] + bar["height"]) < 56
    assert title.evaluate("h => parseFloat(getComputedStyle(h).fontSize)") <= 32


@pytest.mark.ci_cases(2)
@SCHEMES
@pytest.mark.parametrize(("address", "part"), [("map", CHART), ("component?at=L0N0", ".front .strip"), ("prediction?position=8", ".lens .passage")])
def test_map_and_texts_are_as_dark_as_the_page(visited: Visited, scheme: str, dark: bool, address: str, part: str) -> None:
    assert (ImageStat.Stat(drawn(visited(address, scheme=scheme).locator(part).first)).median[0] < 80) == dark


@pytest.mark.ci_cases(1)
@SCHEMES
def test_the_legend_of_the_map_can_be_read(visited: Visited, scheme: str, dark: bool) -> None:
    legend = visited("map", scheme=scheme).locator(f"{CHART} .role-legend text")
    expect(legend.first).to_be_visible()
    for letters in legend.all():
        shown = drawn(letters)
        darkest, lightest = shown.getextrema()
        # what it stands on fills most of it
        assert (ImageStat.Stat(shown).median[0] < 80) == dark
        assert lightest - darkest > 60, letters.text_content()


@pytest.mark.parametrize("width", [1024, 1440])
def test_panels_of_the_overview_are_together_as_wide_as_the_page(visited: Visited, width: int) -> None:
    page = visited("", width=width)
    expect(page.locator(f"{CHART} svg.marks")).to_have_count(10)
    boxes = page.locator(CHART).evaluate_all("all => all.map(a => a.getBoundingClientRect()).map(b => [b.left, b.right])")
    assert max(right for _, right in boxes) - min(left for left, _ in boxes) > 0.85 * width, boxes
