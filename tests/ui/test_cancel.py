"""A prompt that runs can be left half-way: Cancel hangs up, which is how the model process hears of it, and Run begins anew."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from schema.live import ADDRESS, TOKEN
from tests.ui.browser import serving, settled
from tests.waiting import HANG_S

pytestmark = pytest.mark.thorough


class Endless:
    """A model process that is half-way through a prompt for ever, and notes when whoever asked has hung up."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.asked, self.left = 0, threading.Event()
        threading.Thread(target=self.answer, daemon=True).start()

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.listener.getsockname())

    def answer(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                self.asked += 1
                connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
                self.speak(connection)

    def speak(self, connection: socket.socket) -> None:
        try:
            while True:
                connection.sendall(json.dumps({"stage": "forward pass", "share": 0.5}).encode() + b"\n")
                time.sleep(0.1)
        except OSError:
            self.left.set()


@pytest.fixture
def endless() -> Iterator[Endless]:
    made = Endless()
    with closing(made.listener):
        yield made


def test_a_run_is_cancelled_half_way_and_may_be_run_again(chromium: Browser, tiny: Path, tmp_path: Path, endless: Endless) -> None:
    context = chromium.new_context(viewport={"width": 1024, "height": 768}, reduced_motion="reduce")
    with serving(tiny, tmp_path / "log", environment={ADDRESS: endless.address, TOKEN: "0" * 64}) as server:
        page = context.new_page()
        page.goto(f"{server.url}/prediction?prompt=The+cat")
        settled(page)
        assert endless.asked == 0
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_text("forward pass")).to_be_visible()
        assert endless.asked == 1 and not endless.left.is_set()
        page.get_by_role("button", name="Cancel", exact=True).click()
        assert endless.left.wait(HANG_S), "whoever runs the prompt was not told"
        again = page.get_by_role("button", name="Run", exact=True)
        expect(again).to_be_visible()
        settled(page)
        expect(page.get_by_text("forward pass")).to_have_count(0)
        expect(page.get_by_test_id("stAlert")).to_have_count(0)
        # it does not begin again by itself, also where the page is loaded anew
        page.reload()
        settled(page)
        assert endless.asked == 1
        endless.left.clear()
        again.click()
        expect(page.get_by_text("forward pass")).to_be_visible()
        assert endless.asked == 2
        # who goes to another room has left too
        page.get_by_role("link", name="Search", exact=True).click()
        assert endless.left.wait(HANG_S)
        expect(page.get_by_role("heading", level=1).first).to_contain_text("Find neurons")
    context.close()
