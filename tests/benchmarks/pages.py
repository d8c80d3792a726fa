"""How quick the pages are on an atlas with 2 million triggers and 500,000 sub-updates, and what hundreds of views leave in memory."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page

from atlas.papers.catalogue import PAPERS
from tests.ui.browser import PAGES, Server, open_room, serving, settled
from tests.ui.large_atlas import write_large_atlas

REPEATS, VIEWS = 5, 400


def bench_pages(browser: Browser) -> None:
    """Print a table: page, seconds from an address to a usable page, seconds from the next click to its answer."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_large_atlas(Path(folder) / "large.duckdb")
        with serving(path, Path(folder) / "log") as server:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            print(f"\n{'page':26} {'click, s':>9} {'link, s':>9} {'next answer, s':>15}")
            for title, address in PAGES.items():
                clicks = [timed(lambda t=title: click(page, t)) for _ in range(REPEATS) if elsewhere(page, server, title)]
                links = [timed(lambda a=address: go(page, server, a)) for _ in range(REPEATS)]
                answers = [timed(lambda t=title, i=i: NEXT[t](page, i)) for i in range(REPEATS)]
                print(f"{title:26} {statistics.median(clicks):9.2f} {statistics.median(links):9.2f} {statistics.median(answers):15.2f}")
            before = memory(server.pid)
            for i in range(VIEWS):
                go(page, server, f"component?at=L{i % 16}N{i * 7 % 1250}" if i % 2 else list(PAGES.values())[i // 2 % len(PAGES)])
                if (i + 1) % (VIEWS // 8) == 0:
                    print(f"memory of the server after {i + 1} views: {memory(server.pid):,.0f} MB (before: {before:,.0f} MB)")


def go(page: Page, server: Server, address: str) -> None:
    page.goto(f"{server.url}/{address}")
    settled(page)


def elsewhere(page: Page, server: Server, title: str) -> bool:
    """Go to a page other than `title`, from which a link leads to it."""
    go(page, server, {"Overview": "sql", "Figures and tables of the papers": "evidence"}.get(title, ""))
    return True


def click(page: Page, title: str) -> None:
    """To a page by its name at the top."""
    before = page.locator("h1").first.inner_text()
    open_room(page, title)
    page.wait_for_function("before => ![before, undefined].includes(document.querySelector('h1')?.innerText)", arg=before)
    settled(page)


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def memory(pid: int) -> float:
    """Resident memory of a process, MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1000


def answered(page: Page, act: Callable[[], object], holds: str) -> None:
    """Do something, and wait until the page's text, or what is typed in it, holds the answer."""
    act()
    page.wait_for_function(f"document.body.innerText.includes({holds!r}) || document.location.href.includes({holds!r})")
    settled(page)


def typed(page: Page, label: str, text: str) -> None:
    field = page.get_by_role("textbox", name=label, exact=True).or_(page.get_by_role("spinbutton", name=label, exact=True)).first
    field.fill(text)
    field.press("Enter" if label != "Statement" else "Control+Enter")


NEXT: dict[str, Callable[[Page, int], None]] = {
    "Overview": lambda page, i: answered(page, lambda: page.get_by_test_id("stPopover").filter(has_text="SQL").nth(i % 2).click(), "any DuckDB"),
    "Component": lambda page, i: answered(page, lambda: page.get_by_role("link", name="Next").click(), f"L3N{18 + i}"),
    "Search": lambda page, i: answered(page, lambda: typed(page, "Token that the value promotes", f"word{i}"), f"term=word{i}"),
    "Prediction": lambda page, i: answered(page, lambda: page.get_by_role("link", name=f"L{3 + i}", exact=True).first.click(), f"open=L{3 + i}"),
    "Evidence": lambda page, i: answered(page, lambda: typed(page, "Layer of the events", str(3 + i)), f"event_layer={3 + i}"),
    "Map": lambda page, i: answered(page, lambda: typed(page, "Layer", str(3 + i)), f"map_layer={3 + i}"),
    "Figures and tables of the papers": lambda page, i: answered(page, lambda: page.get_by_role("radio").nth(len(PAPERS) + 1 + i).click(force=True), "item="),
    "SQL": lambda page, i: answered(page, lambda: typed(page, "Statement", f"SELECT layer, count(*) AS n{i} FROM trigger GROUP BY layer"), f"AS+n{i}"),
}
"""Title → the next thing that somebody does there."""
