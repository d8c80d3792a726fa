"""What only a browser shows of the Prediction room: cells that are links, Back, and a grid that a phone can show."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.ui.browser import serving, settled
from tests.ui.conftest import Server

pytestmark = pytest.mark.thorough


def visible_once(found: Locator) -> None:
    """What stood before is gone: while a page is drawn anew its old part and its new one stand beside each other."""
    expect(found).to_have_count(1)
    expect(found).to_be_visible()


def test_a_cell_opens_its_layer_a_head_its_row_and_back_leads_where_the_reader_was(chromium: Browser, tiny: Path, tmp_path: Path) -> None:
    context = chromium.new_context(viewport={"width": 1024, "height": 768}, reduced_motion="reduce")
    with serving(tiny, tmp_path / "log") as served:
        page = context.new_page()
        page.goto(f"{served.url}/prediction")
        settled(page)
        page.get_by_role("link", name="dog").first.click()
        visible_once(page.get_by_role("heading", name="Prediction at position 8"))
        page.locator(".grid tr:nth-child(2) td a").nth(2).click()
        opened = page.get_by_role("heading", name="What does layer 1 do here?")
        visible_once(opened)
        expect(opened).to_be_in_viewport()
        page.locator(".fall").get_by_role("link", name="L1H0").click()
        looking = page.get_by_role("heading", name="Where does L1H0 look from here?")
        visible_once(looking)
        expect(looking).to_be_in_viewport()
        page.go_back()
        expect(looking).to_have_count(0)
        visible_once(opened)
        page.go_back()
        expect(opened).to_have_count(0)
        visible_once(page.get_by_role("heading", name="Prediction at position 8"))
        page.go_back()
        visible_once(page.get_by_role("heading", name="Traced predictions"))
        page.go_forward()
        visible_once(page.get_by_role("heading", name="Prediction at position 8"))
    context.close()


def test_a_phone_shows_tokens_in_lines_and_scrolls_the_grid_alone(chromium: Browser, server: Server) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{server.url}/prediction?position=127&open=L3")
    settled(page)
    grid = page.locator(".lens.grid")
    grid.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert grid.evaluate("g => g.scrollWidth > g.clientWidth")
    # letter by letter a row is as many lines high as its longest token has letters
    for table in (grid, page.locator(".lens.wide:not(.grid)").first):
        heights = table.evaluate("g => [...g.querySelectorAll('tbody tr')].map(r => r.offsetHeight)")
        assert sorted(heights)[len(heights) // 2] < 130, heights
    context.close()


def test_a_prompt_that_is_edited_keeps_its_line_breaks(chromium: Browser, tiny_server: Server) -> None:
    page = chromium.new_page()
    page.goto(f"{tiny_server.url}/prediction?prompt=Hello%0A%0AIn")
    settled(page)
    field = page.get_by_label("or a prompt of your own").last
    expect(field).to_have_value("Hello\n\nIn")
    field.press("Control+End")
    field.press_sequentially(" the")
    expect(field).to_have_value("Hello\n\nIn the")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**/prediction?prompt=Hello%0A%0AIn*the*")
    expect(field).to_have_value("Hello\n\nIn the")
    page.close()
