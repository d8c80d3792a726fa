"""Links, Back and Forward in a real browser, on the tiny atlas: every step leads where it says, and back to where it was followed from."""

from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.browser import Server, open_room, settled

pytestmark = pytest.mark.thorough


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1024, "height": 768}, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def find(page: Page, words: str) -> None:
    page.get_by_role("searchbox").fill(words)
    page.get_by_role("searchbox").press("Enter")


def row(page: Page) -> None:
    """The first row of a table, by its text: the link lies over it all."""
    page.locator("table.rows tbody tr").first.locator("td").last.click(force=True)


def popover(page: Page) -> None:
    page.get_by_test_id("stPopover").filter(has_text="SQL").get_by_role("button").first.click()
    page.get_by_role("link", name="Open in the SQL page").first.click()


def link(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("link", name=name, exact=True).first.click()


STEPS: list[tuple[Callable[[Page], None], str, str, dict[str, str]]] = [
    (lambda page: open_room(page, "Search"), "search", "Find neurons", {}),
    (lambda page: find(page, "sat"), "search", "What the atlas has of sat", {"q": "sat"}),
    (lambda page: page.locator(".previews .row").first.click(), "component", "L2N1", {"at": "L2N1"}),
    (link("Next"), "component", "L2N2", {"at": "L2N2"}),
    (link("Nearest values"), "component", "L2N2", {"at": "L2N2", "tab": "neighbours"}),
    (row, "component", "L0N0", {"at": "L0N0"}),
    (popover, "sql", "Ask in SQL", {}),
    (lambda page: open_room(page, "Component"), "component", "L0N0", {"at": "L0N0"}),
    (lambda page: find(page, "l2h0"), "component", "L2H0", {"at": "L2H0"}),
    (link("Composition"), "component", "L2H0", {"at": "L2H0", "tab": "circuits"}),
    (row, "component", "L1H0", {"at": "L1H0"}),
    (lambda page: open_room(page, "Map"), "map", "Map of values", {}),
    (lambda page: open_room(page, "Prediction"), "prediction", "Traced predictions", {}),
    (lambda page: page.locator("a[href*='position=']").first.click(), "prediction", "Prediction at position", {}),
    (lambda page: open_room(page, "Evidence"), "evidence", "What do FFNs do to the prediction?", {}),
    (lambda page: open_room(page, "Overview"), "", "What this atlas holds", {}),
]
"""What is done, and the room, heading and parameters that it leads to."""


def state(page: Page) -> tuple[str, str, dict[str, str]]:
    """Room, heading and parameters, but for the identity of the model."""
    parts = urlsplit(page.url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items() if name != "of"}
    return parts.path.strip("/"), page.locator("h1").first.inner_text(), query


def reached(page: Page, room: str, heading: str, query: dict[str, str]) -> tuple[str, str, dict[str, str]]:
    """Wait until a view stands: its address and its heading."""
    expect(page.get_by_role("heading", level=1).first).to_contain_text(heading)
    for name, value in query.items():
        page.wait_for_url(lambda url, n=name, v=value: parse_qs(urlsplit(url).query).get(n) == [v])
    page.wait_for_url(lambda url: urlsplit(url).path.strip("/") == room)
    settled(page)
    expect(page.get_by_test_id("stAlert")).to_have_count(0)
    return state(page)


@pytest.mark.long
def test_back_and_forward_lead_over_every_view_and_each_address_restores_its_own(page: Page, chromium: Browser, tiny_server: Server) -> None:
    page.goto(f"{tiny_server.url}/")
    settled(page)
    seen, addresses = [reached(page, "", "What this atlas holds", {})], [page.url]
    for do, room, heading, query in STEPS:
        do(page)
        seen.append(reached(page, room, heading, query))
        addresses.append(page.url)
        assert query.items() <= seen[-1][2].items()
        expect(page).to_have_title(f"{seen[-1][1]} · tiny")
    for there in seen[-2::-1]:
        page.go_back()
        assert reached(page, *there) == there
    for there in seen[1:]:
        page.go_forward()
        assert reached(page, *there) == there
    fresh = chromium.new_context(viewport={"width": 1024, "height": 768}).new_page()
    for address, there in dict(zip(addresses, seen, strict=True)).items():
        fresh.goto(address)
        assert reached(fresh, *there) == there
    fresh.context.close()


CLICKS = """([first, second, ms]) => {
  const click = (room) => document.querySelector(`.bar a[href^="/${room}"]`).click();
  click(first);
  setTimeout(() => click(second), ms);
}"""


@pytest.mark.ci_cases(2)
@pytest.mark.parametrize("ms", [20, 30, 10])
def test_two_clicks_that_follow_each_other_before_an_answer_are_two_steps(page: Page, tiny_server: Server, ms: int) -> None:
    page.goto(f"{tiny_server.url}/search?q=sat")
    settled(page)
    before = page.evaluate("history.length")
    page.evaluate(CLICKS, ["component", "prediction", ms])
    reached(page, "prediction", "Traced predictions", {})
    assert page.evaluate("history.length") == before + 2
    page.go_back()
    reached(page, "component", "Component", {})
    page.go_back()
    assert reached(page, "search", "What the atlas has of sat", {})[2] == {"q": "sat"}


def test_a_widget_leaves_no_step_and_its_choice_is_there_again_after_back(page: Page, tiny_server: Server) -> None:
    page.goto(f"{tiny_server.url}/search?q=sat")
    settled(page)
    page.locator(".previews .row").first.click()
    reached(page, "component", "L2N1", {})
    page.get_by_role("radio", name="wide").or_(page.get_by_role("button", name="wide")).first.click()
    page.wait_for_url("**/component?*context=wide*")
    settled(page)
    page.get_by_role("link", name="Next").click()
    reached(page, "component", "L2N2", {})
    page.go_back()
    assert reached(page, "component", "L2N1", {})[2] == {"at": "L2N1", "context": "wide"}
    page.go_back()
    assert reached(page, "search", "What the atlas has of sat", {})[2] == {"q": "sat"}


def test_an_area_of_the_map_leaves_no_step(page: Page, tiny_server: Server) -> None:
    page.goto(f"{tiny_server.url}/search?q=sat")
    settled(page)
    page.goto(f"{tiny_server.url}/map?area=1,2,1,2")
    settled(page)
    page.get_by_role("button", name="Zoom out").click()
    page.wait_for_url("**/map?*area=0.5*")
    settled(page)
    page.go_back()
    assert reached(page, "search", "What the atlas has of sat", {})[2] == {"q": "sat"}


def test_an_address_that_does_not_exist_stays_as_it_was_asked(page: Page, tiny_server: Server) -> None:
    page.goto(f"{tiny_server.url}/neuron?layer=99&neuron=5")
    for _ in range(2):
        expect(page.get_by_text("no layer 99: this model has layers 0 to 2")).to_be_visible()
        assert page.url == f"{tiny_server.url}/component?at=L99N5"
        page.reload()


def test_a_middle_click_opens_the_same_view_in_another_tab(page: Page, tiny_server: Server) -> None:
    page.goto(f"{tiny_server.url}/search?q=sat")
    settled(page)
    with page.context.expect_page() as opened:
        page.locator(".previews .row a").first.click(button="middle")
    reached(opened.value, "component", "L2N1", {"at": "L2N1"})
    assert state(page)[0] == "search"


ANSWERS = {
    "L0N0": ((".front .chips", 2), (".front .strip", 4), (".front .spark", 1), (".tabs", 1)),
    "L2H0": ((".front p", 2), (".front .chips", 4), (".front table tr", 7), (".tabs", 1)),
}
"""Component → what is its answer, and how many there are at least: of a head a sentence, heads like it, directions, and where it looks."""


@pytest.mark.parametrize("at", ANSWERS)
def test_the_answer_is_above_the_fold_and_the_bar_stays_in_sight(page: Page, tiny_server: Server, at: str) -> None:
    page.goto(f"{tiny_server.url}/component?at={at}")
    settled(page)
    for part, n in ANSWERS[at]:
        found = page.locator(part)
        expect(found.nth(n - 1)).to_be_visible()
        assert all(box["y"] >= 0 and box["y"] + box["height"] <= 768 for box in (found.nth(i).bounding_box() for i in range(found.count()))), part
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 300)")
    bar = page.locator(".bar").bounding_box()
    assert bar is not None and bar["y"] == 0


def test_what_is_followed_from_far_down_begins_at_its_top(page: Page, tiny_server: Server) -> None:
    page.set_viewport_size({"width": 1024, "height": 400})
    page.goto(f"{tiny_server.url}/component?at=L2N2&tab=neighbours")
    settled(page)
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, main.scrollHeight)")
    expect(page.locator("h1").first).not_to_be_in_viewport()
    row(page)
    reached(page, "component", "L0N0", {"at": "L0N0"})
    expect(page.locator("h1").first).to_be_in_viewport()
