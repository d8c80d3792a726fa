"""Pages as Streamlit runs them, without a browser."""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from playwright.sync_api import Browser
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from schema.open import store
from tests import features
from tests.atlas.annotations.nasty_atlas import write_nasty_atlas
from tests.atlas.tiny_atlas import write_tiny_atlas
from tests.ui.browser import Server, browsing, serving
from tests.ui.large_atlas import write_large_atlas

APP = Path(__file__).parents[2] / "ui" / "app.py"

Visit = Callable[..., AppTest]


@pytest.fixture(scope="session")
def tiny_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_atlas(tmp_path_factory.mktemp("ui") / "tiny.duckdb")


@pytest.fixture
def tiny(tiny_original: Path, tmp_path: Path) -> Path:
    """A tiny atlas of the test's own."""
    return Path(shutil.copy(tiny_original, tmp_path))


@pytest.fixture(scope="session")
def nasty_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_nasty_atlas(tmp_path_factory.mktemp("nasty") / "nasty.duckdb")


@pytest.fixture
def nasty(nasty_original: Path, tmp_path: Path) -> Path:
    """With tokens that a spreadsheet or a browser might take for more than text."""
    return Path(shutil.copy(nasty_original, tmp_path))


@pytest.fixture
def empty(empty_path: Path) -> Path:
    """Tables without a row."""
    return empty_path


@pytest.fixture
def older(tiny: Path) -> Path:
    """Of an earlier schema version."""
    con = store.open_writer(tiny)
    con.execute("UPDATE model SET schema_version = 1")
    con.close()
    return tiny


@pytest.fixture(scope="session")
def packages_read_once() -> Iterator[None]:
    """Streamlit looks for components in every installed package whenever a page is run, which takes longer than many pages do."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(scope="session")
def no_sockets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of an environment in which a page starts no model process, which takes seconds: its sockets would lie deeper than a socket can."""
    return {"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("x" * 100))}


@pytest.fixture(scope="module", autouse=True)
def no_model_process(no_sockets: dict[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in no_sockets.items():
            patched.setenv(name, value)
        yield


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch, packages_read_once: None) -> Iterator[Visit]:
    """Open a page of an atlas: visit(path, "neuron", layer="1")."""
    # Streamlit puts the page there, and a process that is spawned later would run it
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])

    def opened(path: Path, page: str = "overview", **query: str) -> AppTest:
        monkeypatch.setenv("ATLAS_DB", str(path))
        app = AppTest.from_file(str(APP), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        app.switch_page(f"app_pages/{page}.py").run()
        if not app.exception:
            features.note("page", page)
        return app

    yield opened
    st.cache_resource.clear()
    st.cache_data.clear()


def text_of(app: AppTest) -> str:
    """Everything that a page says in text, code, errors and HTML of ours."""
    said = [str(e.value) for kind in ("text", "code", "error", "warning", "title", "header") for e in getattr(app, kind)]
    return "\n".join([*said, *("".join(read(html).texts) for html in htmls(app))])


def htmls(app: AppTest) -> list[str]:
    """The HTML that a page is made of, but for styles and scripts."""
    return [body for body in (str(part.proto.body) for part in app.get("html")) if not body.startswith(("<style>", "<script>"))]


def tables(app: AppTest) -> list[pd.DataFrame]:
    """The tables of a page: those whose rows are links first, each as its columns, and beside the name of what a row leads to its numbers."""
    return [*(linked(html) for html in htmls(app) if '<table class="rows">' in html), *(table.value for table in app.dataframe)]


def linked(html: str) -> pd.DataFrame:
    """A table of links as a reader has it: numbers are numbers again."""
    found = read(html)
    head, *body = found.rows
    frame = pd.DataFrame([[plain(cell) for cell in row] for row in body], columns=head)
    if frame.columns[0] in ("neuron", "head"):
        unit, places = frame.columns[0], [re.fullmatch(r"L(\d+)[NH](\d+)", name) for name in frame.iloc[:, 0]]
        numbers = pd.DataFrame({"layer": [int(p[1]) for p in places], unit: [int(p[2]) for p in places]})
        frame = pd.concat([numbers, frame.drop(columns=unit)], axis=1)
    return frame


def plain(text: str) -> object:
    """What a cell says, as the value it was."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"–": None, "yes": True, "no": False}.get(text, text)


class Reader(HTMLParser):
    """What a browser makes of HTML: its tags, its text, its tables' cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_large_atlas(tmp_path_factory.mktemp("large") / "large.duckdb")


@pytest.fixture(scope="session")
def server(large: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(large, tmp_path_factory.mktemp("server") / "log") as found:
        yield found


@pytest.fixture(scope="session")
def tiny_server(tiny_original: Path, tmp_path_factory: pytest.TempPathFactory, no_sockets: dict[str, str]) -> Iterator[Server]:
    with serving(tiny_original, tmp_path_factory.mktemp("tiny-server") / "log", environment=no_sockets) as found:
        yield found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser
