"""The benchmark of the pages runs to its end. What it prints is no measurement here."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.benchmarks import pages

pytestmark = pytest.mark.long


def test_pages(chromium: Browser, large: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pages, "REPEATS", 1)
    monkeypatch.setattr(pages, "VIEWS", 8)
    pages.bench_pages(chromium, large)
    printed = capsys.readouterr().out
    assert all(line in printed for line in (*pages.PAGES, "after 8 views"))
