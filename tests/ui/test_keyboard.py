"""A whole task without a mouse: a word is looked for, a component of those found is opened, of it a trigger's prediction, and Back leads where one was."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.ui.browser import serving, settled
from tests.ui.test_browser import of_streamlit

pytestmark = pytest.mark.thorough

MOST_TABS = 60
"""Presses of Tab that a reader may need from the top of a page to what its answer leads to."""

FOCUSED = "() => { const on = document.activeElement; return on ? [on.matches(%r), on.textContent.trim() || on.ariaLabel || ''] : [false, ''] }"


@pytest.fixture
def page(chromium: Browser, tiny: Path, tmp_path: Path) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1024, "height": 768}, reduced_motion="reduce")
    with serving(tiny, tmp_path / "log") as server:
        page = context.new_page()
        page.goto(f"{server.url}/")
        settled(page)
        yield page
    context.close()


def tab_to(page: Page, selector: str, text: str = "") -> None:
    """Press Tab until the focus is on what the selector means, and has the text."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        is_it, said = page.evaluate(FOCUSED % selector)
        if is_it and text in said:
            return
    raise AssertionError(f"{MOST_TABS} times Tab does not lead to {selector} {text}")


def arrived(page: Page, heading: str) -> None:
    """The view stands, what has the focus can be seen, and axe finds nothing that is ours."""
    expect(page.get_by_role("heading", level=1).first).to_contain_text(heading)
    settled(page)
    found = Axe().run(page).response["violations"]
    ours = [(v["id"], [n["target"] for n in v["nodes"]]) for v in found if v["impact"] in ("serious", "critical") and not of_streamlit(v)]
    assert not ours, heading


def outline(page: Page) -> str:
    return str(page.evaluate("() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.boxShadow }"))


@pytest.mark.long
def test_from_a_word_to_a_prediction_and_back_by_keys_alone(page: Page) -> None:
    tab_to(page, "input[type=search]")
    page.keyboard.type("cat")
    page.keyboard.press("Enter")
    arrived(page, "What the atlas has of cat")
    tab_to(page, ".previews a")
    assert outline(page) != "nonenone"
    first = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    arrived(page, "L")
    assert page.locator("h1").first.inner_text() in first
    tab_to(page, ".trigger a", "its prediction")
    page.keyboard.press("Enter")
    arrived(page, "Prediction at position")
    address = page.url
    tab_to(page, ".grid th a", "L1")
    page.keyboard.press("Enter")
    opened = page.get_by_role("heading", name="What does layer 1 do here?")
    expect(opened).to_be_visible()
    # of a browser without a window Alt+Left does nothing
    page.go_back()
    expect(opened).to_have_count(0)
    assert page.url == address
    for heading in ("L", "What the atlas has of cat"):
        page.go_back()
        arrived(page, heading)
    expect(page.get_by_role("searchbox")).to_have_value("cat")


def test_a_tab_of_a_component_and_the_atlas_menu_are_reached_by_keys(page: Page) -> None:
    page.goto(f"{page.url}component?at=L1N2")
    settled(page)
    tab_to(page, ".tabs a", "Nearest values")
    page.keyboard.press("Enter")
    page.wait_for_url("**tab=neighbours*")
    settled(page)
    # where the reader was: the next Tab goes on from there, and not from the top of the page
    tab_to(page, "table.rows a")
    neighbour = page.evaluate("document.activeElement.textContent").strip()
    page.keyboard.press("Enter")
    arrived(page, neighbour)
    tab_to(page, "details.atlas summary")
    page.keyboard.press("Enter")
    tab_to(page, "details.atlas a", "Overview")
    page.keyboard.press("Enter")
    arrived(page, "What this atlas holds")
