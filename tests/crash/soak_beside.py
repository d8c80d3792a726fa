"""The processes that go on beside the ingests: one that opens the atlas again and again, and a browser on its pages."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import atlas
from tests.crash.kill_loop import WHOLE, forked

PAUSE_S, PAGE_S, START_S = 0.3, 10.0, 120.0

REPLACED = "this snapshot has been replaced by a newer one"
"""What a page says then, and what to do."""


class Beside:
    """Processes that must not end before the block does, with a log each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pids = folder, dict[str, int]()
        self.server: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pid in self.pids.values():
            os.kill(pid, signal.SIGTERM)
        for pid in self.pids.values():
            os.waitpid(pid, 0)

    def start(self, name: str, action: Callable[[], None]) -> int:
        self.pids[name] = forked(lambda: until_told(action), self.folder / f"{name}.log")
        return self.pids[name]

    def check(self) -> None:
        """Raises AssertionError if one has ended."""
        for name, pid in self.pids.items():
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                del self.pids[name]
                raise AssertionError(f"the {name} has ended: {(self.folder / f'{name}.log').read_text()}")

    def await_server(self, wanted: bool) -> None:
        """Wait until there are pages, if they are wanted."""
        end = time.monotonic() + START_S
        while wanted and self.server is None:
            self.check()
            if (self.folder / "server").exists():
                self.server = int((self.folder / "server").read_text())
            if time.monotonic() > end:
                raise AssertionError(f"no pages: {(self.folder / 'ui.log').read_text()}")
            time.sleep(0.1)


def until_told(action: Callable[[], None]) -> None:
    """Do it, and leave nothing behind when told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    action()


def read_on(path: Path, temporary: Path) -> None:
    """Open the atlas and ask, until the parent is gone; one opening goes on through ten others. Raises if a shard is not whole."""
    tempfile.tempdir = str(temporary)
    parent = os.getppid()
    while os.getppid() == parent:
        with atlas.open(path) as held:
            before = held.layer_summary()
            for _ in range(10):
                with atlas.open(path) as a:
                    a.status()
                    a.top_triggers(0, 1, n=5)
                    if not (broken := a.sql(WHOLE)).is_empty():
                        raise AssertionError(f"{path}: a shard is not whole: {broken}")
                time.sleep(PAUSE_S)
            if not held.layer_summary().equals(before):
                raise AssertionError(f"{path}: an open atlas has changed")


def browse_on(path: Path, folder: Path) -> None:
    """Serve the pages, with the server's PID in `folder`/server, and open one after the other, until the parent is gone. Raises if a page fails."""
    # imported here: without a browser none need be installed
    from playwright.sync_api import TimeoutError

    from tests.ui.browser import PAGES, browsing, serving, settled

    parent = os.getppid()
    addresses = PAGES | {"Component": "component?at=L1N17", "Prediction": "prediction"}
    with serving(path, folder / "ui.log") as server, browsing() as browser:
        draft = folder / "server.tmp"
        draft.write_text(str(server.pid))
        draft.rename(folder / "server")
        page = browser.new_page()
        # ingests have the machine beside it
        page.set_default_navigation_timeout(120_000)
        while True:
            for title, address in addresses.items():
                if os.getppid() != parent:
                    return
                due = time.monotonic() + PAGE_S
                page.goto(f"{server.url}/{address}")
                try:
                    settled(page)
                except TimeoutError as error:
                    raise AssertionError(f"{title} comes to no end: {page.locator('body').inner_text()}") from error
                said = page.locator("body").inner_text()
                # snapshots follow one another so fast here that one may go while a page runs a statement of its own over it
                if REPLACED not in said and page.get_by_test_id("stAlertContentError").count() + page.get_by_test_id("stException").count():
                    raise AssertionError(f"{title}: {said}")
                # at one pace, because what the server keeps for a while grows with that
                time.sleep(max(0.0, due - time.monotonic()))
