"""The pages in a real browser, on an atlas with 2 million triggers whose text is nasty, started as people start them."""

import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

from tests.ui.browser import PAGES, Server, open_room, settled
from tests.ui.large_atlas import NASTY
from ui.frame import SCRIPT


@dataclass
class Visitor:
    """A browser window, with everything that its pages asked for and complained of."""

    page: Page
    server: Server
    elsewhere: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def go(self, address: str) -> Page:
        self.page.goto(f"{self.server.url}/{address}")
        settled(self.page)
        return self.page


@pytest.fixture
def open_window(chromium: Browser, server: Server) -> Callable[..., Visitor]:
    windows = []

    def opened(**options: object) -> Visitor:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options})
        windows.append(context)
        visitor = Visitor(context.new_page(), server)
        visitor.page.on("console", lambda m: visitor.complaints.append(f"{m.text} {m.location}") if m.type == "error" and not is_probe(m) else None)
        visitor.page.on("pageerror", lambda e: visitor.complaints.append(str(e)))
        visitor.page.on("request", lambda r: visitor.elsewhere.append(r.url) if not own(server, r.url) else None)
        visitor.page.on("dialog", lambda d: visitor.complaints.append(f"dialog: {d.message}"))
        return visitor

    yield opened
    for window in windows:
        window.close()


def own(server: Server, url: str) -> bool:
    return url.startswith((server.url, server.url.replace("http", "ws"), "data:", "blob:", "about:"))


def at(server: Server, address: str) -> re.Pattern[str]:
    """Addresses of the page that one of them is of."""
    return re.compile(re.escape(f"{server.url}/{address.split('?')[0]}") + r"(\?.*)?$")


def is_probe(message: ConsoleMessage) -> bool:
    """Streamlit looks for its server beneath the page's own address first, where it never is."""
    return "404" in message.text and "/_stcore/" in message.location["url"]


def open_downloads(page: Page, n: int) -> Locator:
    """Open the n-th of our own buttons, tables of Streamlit have one as well. It closes again where the page is drawn anew meanwhile."""
    button = page.get_by_test_id("stPopover").filter(has_text="Download").get_by_role("button").nth(n)
    provenance = page.get_by_role("button", name="Provenance", exact=True)
    for _ in range(3):
        button.click()
        try:
            expect(provenance.last).to_be_visible(timeout=20_000)
        except AssertionError:
            continue
        return button
    raise AssertionError(f"download {n} does not open")


def downloaded(page: Page, opener: Locator, label: str) -> bytes:
    """What a button beneath an open Download gives. What it opens hangs on it, and is out of the window where charts above have grown meanwhile."""
    opener.evaluate("button => button.scrollIntoView({block: 'center'})")
    with page.expect_download() as download:
        page.get_by_role("button", name=label, exact=True).last.click()
    return download.value.path().read_bytes()


def shown_error(page: Page) -> str | None:
    errors = page.get_by_test_id("stAlert")
    return errors.first.inner_text() if errors.count() else None


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_whole_and_asks_nobody_else(open_window: Callable[..., Visitor], width: int, scheme: str) -> None:
    visitor = open_window(viewport={"width": width, "height": 900}, color_scheme=scheme)
    for title, address in PAGES.items():
        page = visitor.go(address)
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
        assert shown_error(page) is None, title
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{title} is wider than the window"
        found = Axe().run(page).response["violations"]
        ours = [v for v in found if v["impact"] in ("serious", "critical") and not of_streamlit(v)]
        assert not ours, f"{title} in {scheme}: {[(v['id'], [n['target'] for n in v['nodes']]) for v in ours]}"
        assert page.locator("img[src=x], a[href='http://example.org']").count() == 0, f"{title} took a token for markup"
        # the one that follows links is ours
        assert set(page.locator("main script").all_text_contents()) <= {SCRIPT}, f"{title} took a token for a script"
    assert visitor.elsewhere == []
    assert visitor.complaints == []


OF_STREAMLIT = re.compile(
    r"stHeader|stToolbar|stMainMenu|stAppViewContainer|data-baseweb|stDataFrame|stNumberInput|glide|gdg|stTooltip|stPopover|_brush|stWidgetLabel|stElementToolbar"
)


def of_streamlit(violation: dict) -> bool:
    """Whether all nodes of a violation are parts that Streamlit or Vega draws and we cannot change."""
    return all(OF_STREAMLIT.search(" ".join(map(str, node["target"])) + node["html"]) for node in violation["nodes"])


@pytest.mark.thorough
def test_the_server_listens_to_this_machine_alone_and_holds_no_model_library(open_window: Callable[..., Visitor], server: Server) -> None:
    open_window().go("")
    port = f"{int(server.url.rpartition(':')[2]):04X}"
    listening = [
        line.split()[1] for table in ("tcp", "tcp6") for line in Path(f"/proc/{server.pid}/net/{table}").read_text().splitlines()[1:] if line.split()[3] == "0A"
    ]
    assert [address for address in listening if address.endswith(f":{port}")] == [f"0100007F:{port}"]
    mapped = Path(f"/proc/{server.pid}/maps").read_text()
    assert "duckdb" in mapped
    assert "torch" not in mapped and "numba" not in mapped


def test_a_click_through_of_all_pages_and_back(open_window: Callable[..., Visitor]) -> None:
    visitor = open_window()
    page = visitor.go("")
    for title, address in list(PAGES.items())[1:]:
        open_room(page, title)
        # the page before is still there, and settled, until the server has answered
        expect(page).to_have_url(at(visitor.server, address))
        settled(page)
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
        assert shown_error(page) is None, title
    for address in list(PAGES.values())[-2::-1]:
        page.go_back()
        expect(page).to_have_url(at(visitor.server, address))
        settled(page)
        assert shown_error(page) is None
    assert visitor.complaints == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("address", "heading", "kept"),
    [
        ("component?at=L3N17", "L3N17", {"at": "L3N17"}),
        ("component?at=L3N17&context=wide", "L3N17", {"at": "L3N17", "context": "wide"}),
        ("sql?sql=SELECT%2042%20AS%20answer", None, {"sql": "SELECT 42 AS answer"}),
        ("prediction?position=127", None, {"position": "127"}),
    ],
)
def test_a_link_restores_its_view(open_window: Callable[..., Visitor], address: str, heading: str | None, kept: dict[str, str]) -> None:
    page = open_window().go(address)
    if heading:
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(page.url).query)
    assert {name: values[0] for name, values in query.items()} == kept


@pytest.mark.thorough
def test_a_statement_from_a_link_waits_for_run_wherever_the_link_is(open_window: Callable[..., Visitor]) -> None:
    statement, other = "SELECT 6 * 7 AS answer", "SELECT 'another' AS word"
    page = open_window().go(f"sql?{urllib.parse.urlencode({'sql': statement, 'chart': 'true'})}")
    waits, editor = page.get_by_text("then press Run"), page.get_by_label("Statement", exact=True)
    for _ in range(2):
        expect(editor).to_have_value(statement)
        expect(waits).to_be_visible()
        expect(page.get_by_text("1 row", exact=True)).to_have_count(0)
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_text("1 row", exact=True)).to_be_visible()
        expect(waits).to_have_count(0)
        page.reload()
        settled(page)
    editor.fill(other)
    editor.press("Control+Enter")
    expect(page.get_by_text("1 row", exact=True)).to_be_visible()
    page.wait_for_url(lambda url: urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["sql"] == [other])
    # without loading the page anew, as a link within the pages does
    page.evaluate(
        "sql => {const link = document.createElement('a'); link.href = '/sql?sql=' + sql; document.body.append(link); link.click()}",
        urllib.parse.quote(statement),
    )
    expect(editor).to_have_value(statement)
    expect(waits).to_be_visible()


@pytest.mark.thorough
def test_the_sql_behind_a_table_is_brought_to_the_sql_page(open_window: Callable[..., Visitor]) -> None:
    page = open_window().go("component?at=L3N17")
    page.get_by_test_id("stPopover").filter(has_text="SQL").get_by_role("button").first.click()
    page.get_by_role("link", name="Open in the SQL page").first.click()
    expect(page.get_by_label("Statement", exact=True)).to_have_value(re.compile("trigger_contexts"))
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("20 rows")).to_be_visible()


@pytest.mark.thorough
def test_an_address_that_does_not_exist_is_said(open_window: Callable[..., Visitor]) -> None:
    page = open_window().go("component?at=L99N0")
    expect(page.get_by_text("no layer 99: this model has layers 0 to 15")).to_be_visible()
    page = open_window().go("prediction?position=5")
    expect(page.get_by_text("position 5 is not traced; the nearest traced positions are")).to_be_visible()


@pytest.mark.thorough
def test_next_neuron_renews_the_link(open_window: Callable[..., Visitor]) -> None:
    page = open_window().go("component?at=L3N17")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", level=1).first).to_have_text("L3N18")
    page.wait_for_url("**/component?at=L3N18&of=ff")


@pytest.mark.thorough
@pytest.mark.parametrize("address", ["component?at=L0N0&context=wide", "prediction?position=127"])
def test_nasty_tokens_are_text(open_window: Callable[..., Visitor], address: str) -> None:
    visitor = open_window()
    page = visitor.go(address)
    expect(page.get_by_text("<script>alert(1)</script>").first).to_be_visible()
    text = page.locator("section, [data-testid=stMain]").first.inner_text()
    for token in (" <img src=x onerror=alert(2)>", " שלום", " 漢字", " 🙂", " *a* $x$ :red[r]", " &amp;", "\\x07\\x1b", "x" * 200):
        assert token.strip() in text, token
    assert page.locator("img[src=x]").count() == 0
    assert not [c for c in visitor.complaints if "dialog" in c]
    assert len(NASTY) == 12


@pytest.mark.thorough
def test_a_table_is_downloaded_with_its_provenance(open_window: Callable[..., Visitor]) -> None:
    page = open_window().go("component?at=L3N17")
    opener = open_downloads(page, 0)
    for label, start in (("CSV", b"rank,coefficient"), ("LaTeX", b"% "), ("Provenance", b"{")):
        assert downloaded(page, opener, label).startswith(start), label


@pytest.mark.thorough
def test_a_figure_is_downloaded(open_window: Callable[..., Visitor]) -> None:
    page = open_window().go("")
    opener = open_downloads(page, 1)
    for label, start in (("SVG", b"<svg"), ("PDF", b"%PDF"), ("PNG", b"\x89PNG")):
        assert downloaded(page, opener, label).startswith(start), label
