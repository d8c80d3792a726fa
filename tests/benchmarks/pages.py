"""How quick the pages of an atlas are, and what hundreds of views leave in memory."""

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, Page

import atlas
from atlas.papers.catalogue import PAPERS
from tests.ui.browser import PAGES, Server, open_room, serving, settled

REPEATS, VIEWS = 5, 400

MEASURED = ("click", "stands", "address", "stands", "next", "stands")
"""From another page by its name at the top, until the page's first answer can be read and until all of it stands; from its address, likewise; the next thing
that is done there, likewise."""

PAINTED = {
    "Overview": "[data-testid=stMetric]",
    "Search": ".previews .row",
    "Component": ".front .chips",
    "Prediction": ".lens .passage",
    "Map": "[data-testid=stVegaLiteChart] canvas",
    "Evidence": "[data-testid=stMain] [data-testid=stText]",  # the answer in words
    "Figures and tables of the papers": "[data-testid=stMain] h2",
    "SQL": "textarea",
}
"""Title → the first of what its page is for."""

BY_NAME = PAINTED | {
    "Search": "h1",
    "Component": "[data-testid=stMain] a[href*='at=']",
    "Prediction": "[data-testid=stMain] a[href*='position=']",
}
"""The same of a room that is entered by its name, which has no subject yet."""

# asked at every frame: a locator looks again after up to half a second
ANSWERED = """([selector, before]) => {
    const title = document.querySelector("h1")?.innerText
    return title && title !== before && [...document.querySelectorAll(selector)].some(found => !found.closest("[data-stale=true]"))
}"""
STANDS = """() => document.querySelector("[data-testid=stApp][data-test-script-state=notRunning] h1") && !document.querySelector("[data-stale=true]")"""

WATCH = """() => {
    const app = document.querySelector("[data-testid=stApp]")
    window.hasRun = false
    new MutationObserver(() => { window.hasRun ||= app.dataset.testScriptState === "running" }).observe(app, { attributes: true })
}"""
HOLDS = """(holds) => document.location.href.includes(holds)
    || [...document.querySelectorAll("[role=columnheader]")].some(head => head.innerText === holds)"""


def bench_pages(browser: Browser, path: Path) -> None:
    """Print a table of an atlas: page, and the median seconds of each thing that MEASURED names; then what many views leave in memory."""
    views, words, n_neurons = read_views(path)
    with tempfile.TemporaryDirectory() as folder, serving(path, Path(folder) / "log") as server:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        print(f"\n{path.name}, {n_neurons:,} neurons\n{'page':33}" + "".join(f"{name + ', s':>10}" for name in MEASURED))
        for title, address in views.items():
            clicks = [click(page, title) for _ in range(REPEATS) if elsewhere(page, server, title)]
            links = [follow(page, server, address, title) for _ in range(REPEATS) if elsewhere(page, server, title)]
            answers = [after(page, partial(NEXT[title], page, i, words)) for i in range(REPEATS)]
            found = [seconds for pairs in (clicks, links, answers) for seconds in zip(*pairs, strict=True)]
            print(f"{title:33}" + "".join(f"{statistics.median(seconds):10.2f}" for seconds in found), flush=True)
        before = memory(server.pid)
        for i in range(VIEWS):
            go(page, server, f"component?at=L{i % 16}N{i * 7 % 1250}" if i % 2 else list(views.values())[i // 2 % len(views)])
            if (i + 1) % (VIEWS // 8) == 0:
                print(f"memory of the server after {i + 1} views: {memory(server.pid):,.0f} MB (before: {before:,.0f} MB)")
        page.close()


def read_views(path: Path) -> tuple[dict[str, str], list[str], int]:
    """Title → address of a view with something on it; words that are tokens; how many neurons there are."""
    with atlas.open(path) as a:
        # plain ones stand in an address as they are; tokens with small numbers are those of every text
        plain = "token_id IN (SELECT token_id FROM position) AND starts_word AND regexp_full_match(trim(text), '[A-Za-z][A-Za-z0-9]{3,19}')"
        middling = "abs(token_id - (SELECT median(token_id) FROM token)), token_id"
        words = a.sql(f"SELECT trim(text) AS word FROM token WHERE {plain} ORDER BY {middling} LIMIT {REPEATS + 1}")["word"].to_list()
        position, n = a.sql("SELECT (SELECT min(position_id) FROM trace WHERE position_id > 0), (SELECT count(*) FROM neuron)").row(0)
    return PAGES | {"Search": f"search?q={words[0]}", "Prediction": f"prediction?position={position}"}, words, n


def follow(page: Page, server: Server, address: str, title: str) -> tuple[float, float]:
    """Seconds from an address until the first of what the page is for can be read, and until the page stands."""
    start = time.perf_counter()
    page.goto(f"{server.url}/{address}", wait_until="commit")
    return read(page, PAINTED[title], "", start)


def read(page: Page, answer: str, before: str, start: float) -> tuple[float, float]:
    page.wait_for_function(ANSWERED, arg=[answer, before])
    answered = time.perf_counter() - start
    page.wait_for_function(STANDS)
    return answered, time.perf_counter() - start


def go(page: Page, server: Server, address: str) -> None:
    page.goto(f"{server.url}/{address}")
    settled(page)


def elsewhere(page: Page, server: Server, title: str) -> bool:
    """Go to a page other than `title`, from which a link leads to it."""
    go(page, server, {"Overview": "sql", "Figures and tables of the papers": "evidence"}.get(title, ""))
    return True


def click(page: Page, title: str) -> tuple[float, float]:
    """To a page by its name at the top: seconds until its first answer, and until it stands."""
    before = page.locator("h1").first.inner_text()
    start = time.perf_counter()
    open_room(page, title)
    return read(page, BY_NAME[title], before, start)


def after(page: Page, action: Callable[[], object]) -> tuple[float, float]:
    """Seconds that something takes with its first answer, and until the page stands."""
    start = time.perf_counter()
    action()
    answered = time.perf_counter() - start
    page.wait_for_function(STANDS)
    return answered, time.perf_counter() - start


def memory(pid: int) -> float:
    """Resident memory of a process, MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1000


def wait_for_answer(page: Page, act: Callable[[], object], holds: str) -> None:
    """Do something that the server answers, and wait until it has, and the page's address or the head of a table holds what was asked."""
    # the browser writes the address at once, before it asks
    page.evaluate(WATCH)
    act()
    page.wait_for_function("window.hasRun")
    stands(page, holds)


def stands(page: Page, holds: str) -> None:
    page.wait_for_function(HOLDS, arg=holds)
    page.wait_for_function(STANDS)


def picked(page: Page, i: int) -> None:
    """Another item of a paper. A click that comes while the items are drawn anew may be lost, so that no run is waited for."""
    page.get_by_role("radio").nth(len(PAPERS) + 1 + i).click(force=True)
    stands(page, "item=")


def opened(page: Page, i: int) -> None:
    """Open what the browser has already."""
    page.get_by_test_id("stPopover").filter(has_text="SQL").nth(i % 2).click()
    page.wait_for_function("document.body.innerText.includes('any DuckDB')")


def typed(page: Page, label: str, text: str) -> None:
    field = page.get_by_role("textbox", name=label, exact=True).or_(page.get_by_role("spinbutton", name=label, exact=True)).first
    field.fill(text)
    field.press("Enter" if label != "Statement" else "Control+Enter")


def searched(page: Page, words: str) -> None:
    """Search, and wait for the first group that is found: the others come after it."""
    page.get_by_role("searchbox").fill(words)
    page.get_by_role("searchbox").press("Enter")
    page.wait_for_function(ANSWERED, arg=[f"[data-testid=stMain] a[href*='term={words}']", ""])


NEXT: dict[str, Callable[[Page, int, list[str]], None]] = {
    "Overview": lambda page, i, words: opened(page, i),
    "Component": lambda page, i, words: wait_for_answer(page, lambda: page.get_by_role("link", name="Next").click(), f"L3N{18 + i}"),
    "Search": lambda page, i, words: searched(page, words[i + 1]),
    "Prediction": lambda page, i, words: wait_for_answer(page, lambda: page.get_by_role("link", name=f"L{3 + i}", exact=True).first.click(), f"open=L{3 + i}"),
    "Evidence": lambda page, i, words: wait_for_answer(page, lambda: typed(page, "Layer of the events", str(3 + i)), f"event_layer={3 + i}"),
    "Map": lambda page, i, words: wait_for_answer(page, lambda: typed(page, "Layer", str(3 + i)), f"map_layer={3 + i}"),
    "Figures and tables of the papers": lambda page, i, words: picked(page, i),
    "SQL": lambda page, i, words: wait_for_answer(
        page, lambda: typed(page, "Statement", f"SELECT layer, count(*) AS n{i} FROM trigger GROUP BY layer"), f"n{i}"
    ),
}
"""Title → the next thing that somebody does there."""
