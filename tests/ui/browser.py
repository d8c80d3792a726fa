"""A server of the pages and Debian's Chromium, for tests and measurements."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

PAGES = {
    "Overview": "",
    "Search": "search",
    "Component": "component?at=L3N17",
    "Prediction": "prediction?position=127",
    "Map": "map",
    "Evidence": "evidence",
    "Figures and tables of the papers": "evidence?show=papers",
    "SQL": "sql",
}
"""Title → address of a view with something on it."""

SERVER_S, SETTLED_S, EXPECTED_S = 200, 200, 60
"""What is waited for at most: a server, a page that stands, a part of a page. Each ends a hang, and is none of what is tested."""


DRAWN = "e => e.dataset.stale === 'false' && getComputedStyle(e).opacity === '1'"
"""Of a part of a page: it is of the last run, and no longer pale as those are that wait for one."""


@dataclass(frozen=True)
class Server:
    """Where the pages are, and the process that serves them."""

    url: str
    pid: int


def command(path: Path, *options: str) -> list[str]:
    return [sys.executable, "-c", "from atlas.cli.main import main; main()", "ui", str(path), "--no-browser", *options]


@contextmanager
def serving(path: Path, log: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[Server]:
    """`atlas ui` on a free port of this machine, and of it alone unless the options say otherwise; ended with the block."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    around = {**os.environ, "HOME": str(log.parent), **(environment or {})}
    with log.open("wb") as out:
        process = subprocess.Popen(command(path, "--port", str(port), *options), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=around)
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + SERVER_S
        while not is_healthy(url):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no pages at {url}: {log.read_text()}")
            time.sleep(0.1)
        yield Server(url, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1) as answer:
            return answer.read() == b"ok"
    except OSError:
        return False


@contextmanager
def browsing() -> Iterator[Browser]:
    """The machine's Chromium."""
    found = shutil.which("chromium")
    if found is None:
        raise RuntimeError("no chromium on this machine: `make packages` installs it on Debian")
    expect.set_options(timeout=EXPECTED_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


def settled(page: Page) -> None:
    """Wait until the script has run to its end and nothing is being drawn anew."""
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=SETTLED_S * 1000)
    page.wait_for_selector("h1", timeout=SETTLED_S * 1000)
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=SETTLED_S * 1000)
    page.wait_for_function(f"[...document.querySelectorAll('[data-stale]')].every({DRAWN})", timeout=SETTLED_S * 1000)


def open_room(page: Page, title: str) -> None:
    """By its name in the bar, behind the atlas's name, or on the page."""
    link = page.get_by_role("link", name=title, exact=True)
    if not link.first.is_visible():
        page.locator("details.atlas summary").click()
    link.first.click()
