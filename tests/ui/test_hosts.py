"""Who is answered: only a browser that calls the server by a name of its own, from a page of the server's own."""

import base64
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser
from streamlit.byte_util import config_max_cache_data_size_to_bytes

from tests.ui import browser
from tests.ui.browser import Server, command, serving, settled
from tests.waiting import HANG_S, has_ended, wait_until
from ui.cli import ui

EVERYWHERE = ["/", "/sql", "/_stcore/health", "/_stcore/host-config", "/_stcore/metrics", "/_stcore/stream", "/media/none", "/static/none", "/no/such"]
"""Pages, what Streamlit asks of its own, files, and what does not exist."""

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
}

Serve = Callable[..., Server]


@pytest.fixture(scope="module")
def network() -> Iterator[socket.socket]:
    """Stands between the server and all other machines: who connects is looking for one of them."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        yield proxy


@pytest.fixture(scope="module")
def here(tiny_original: Path, tmp_path_factory: pytest.TempPathFactory, network: socket.socket) -> Iterator[Server]:
    """Listens to this machine alone."""
    proxy = f"http://127.0.0.1:{network.getsockname()[1]}"
    around = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": "", "NO_PROXY": ""}
    with serving(tiny_original, tmp_path_factory.mktemp("here") / "log", "--host", "Atlas.example.org", environment=around) as found:
        yield found


@pytest.fixture(scope="module")
def open_to_all(tiny_original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tiny_original, tmp_path_factory.mktemp("all") / "log", "--address", "0.0.0.0") as found:
        yield found


def port(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


def asked(server: Server, path: str, *, address: str = "127.0.0.1", **headers: str | None) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of a GET. Headers are named with underscores; Host is what is given, or none at all."""
    con = http.client.HTTPConnection(address, port(server), timeout=30)
    con.putrequest("GET", path, skip_host=True)
    for name, value in headers.items():
        if value is not None:
            con.putheader(name.replace("_", "-"), value)
    con.endheaders()
    answer = con.getresponse()
    found = answer.status, "" if answer.status == 101 else answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
    con.close()
    return found


def joined(server: Server, host: str, origin: str | None) -> int:
    """Status of a websocket's handshake: 101 where it is accepted."""
    return asked(server, "/_stcore/stream", Host=host, Origin=origin, **{k.replace("-", "_"): v for k, v in HANDSHAKE.items()})[0]


def test_no_file_is_taken(here: Server) -> None:
    status, said, headers = asked(here, "/_stcore/upload_file/session/file", Host=f"127.0.0.1:{port(here)}")
    assert (status, said) == (403, "these pages take no files\n")
    assert headers["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.parametrize("path", EVERYWHERE)
@pytest.mark.parametrize(
    "host", ["evil.com", "evil.com:{port}", "127.0.0.1.evil.com", "localhost@evil.com", "8.8.8.8:{port}", "[::2]", "", "127.0.0.1, evil.com"]
)
def test_another_name_is_refused_wherever_it_asks(here: Server, path: str, host: str) -> None:
    status, text, _ = asked(here, path, Host=host.format(port=port(here)))
    assert status == 403
    assert text.count("\n") == 1 and "atlas ui --host" in text and "localhost" in text


def test_a_request_without_a_name_is_refused(here: Server) -> None:
    assert asked(here, "/sql")[0] in (400, 403)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost.", "[::1]:{port}", "127.0.0.1:9000", "atlas.example.org", "ATLAS.example.org:443"]
)
def test_its_own_names_are_answered(here: Server, host: str) -> None:
    host = host.format(port=port(here))
    assert asked(here, "/_stcore/health", Host=host)[:2] == (200, "ok")
    assert joined(here, host, f"http://{host}") == 101


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("evil.com", "http://evil.com"),
        ("evil.com:{port}", "http://127.0.0.1:{port}"),
        ("evil.com", None),
        ("127.0.0.1:{port}", "http://evil.com"),
        ("127.0.0.1:{port}", "null"),
        ("localhost:{port}", "http://localhost:3000"),
        ("localhost:{port}", "http://localhost.evil.com:{port}"),
    ],
)
def test_a_websocket_is_refused_under_another_name_or_from_another_page(here: Server, host: str, origin: str | None) -> None:
    assert joined(here, host.format(port=port(here)), origin and origin.format(port=port(here))) == 403


def test_another_page_is_told_so_without_a_look_at_the_network(here: Server, network: socket.socket) -> None:
    status, text, headers = asked(here, "/_stcore/host-config", Host=f"127.0.0.1:{port(here)}", Origin="http://evil.com")
    assert (status, "access-control-allow-origin" in headers) == (403, False)
    assert (
        text == f"a page of 'http://evil.com' may not send requests to 127.0.0.1:{port(here)}; "
        "a proxy in front of these pages must pass on the Host header unchanged\n"
    )
    with pytest.raises(BlockingIOError):
        network.accept()


def test_an_origin_that_is_no_address_is_one_of_another_page(here: Server) -> None:
    for origin in ("http://[", "http://[::1", "http://]", "http://[x]/", "http://a\u2100b".encode("utf-8").decode("latin-1")):
        status, text, _ = asked(here, "/", Host=f"127.0.0.1:{port(here)}", Origin=origin)
        assert (status, text.startswith("a page of ")) == (403, True)
        assert joined(here, f"127.0.0.1:{port(here)}", origin) == 403


@pytest.mark.parametrize("path", EVERYWHERE)
@pytest.mark.parametrize("host", ["127.0.0.1", "evil.com"])
def test_no_answer_may_be_framed(here: Server, path: str, host: str) -> None:
    headers = asked(here, path, Host=host)[2]
    assert headers["content-security-policy"] == "frame-ancestors 'self'"
    assert headers["x-frame-options"] == "SAMEORIGIN"


@pytest.fixture
def elsewhere(here: Server, tmp_path: Path) -> Iterator[str]:
    """A page of another server of this machine, with one of ours in a frame."""
    (tmp_path / "index.html").write_text(f"<iframe src='{here.url}/sql' width=1000 height=800></iframe>")
    other = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path))
    threading.Thread(target=other.serve_forever).start()
    yield f"http://127.0.0.1:{other.server_port}/"
    other.shutdown()
    other.server_close()


def test_a_page_elsewhere_cannot_show_one_of_ours(elsewhere: str, chromium: Browser) -> None:
    page = chromium.new_page()
    with page.expect_console_message(lambda said: "frame-ancestors" in said.text, timeout=HANG_S * 1000):
        page.goto(elsewhere)
    assert page.frame_locator("iframe").get_by_test_id("stApp").count() == 0
    page.close()


@pytest.mark.thorough
def test_open_to_all_it_answers_to_the_machines_own_names_and_addresses(open_to_all: Server) -> None:
    own = {"127.0.0.1", "localhost", socket.gethostname(), *addresses()}
    assert {name for name in own if asked(open_to_all, "/_stcore/health", address=name, Host=f"{name}:{port(open_to_all)}")[0] != 200} == set()
    assert asked(open_to_all, "/_stcore/health", Host="evil.com")[0] == 403


def addresses() -> set[str]:
    """This machine's."""
    return {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}


@pytest.mark.parametrize("name", ["http://atlas.example.org", "atlas.example.org:443", "*", "a b", ""])
def test_what_is_no_name_is_refused_at_once(tiny: Path, name: str) -> None:
    ended = subprocess.run(command(tiny, "--host", name), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "Invalid value for '--host'" in ended.stderr and "without scheme or port" in ended.stderr


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tiny: Path) -> dict[str, str]:
    """The environment that the command starts the server with."""
    found: dict[str, str] = {}
    monkeypatch.setattr(os, "execve", lambda _program, _arguments, environment: found.update(environment))
    # the command leaves the folder it is called in for that of the pages
    monkeypatch.chdir(tiny.parent)
    return found


def test_an_atlas_is_opened_by_the_name_it_is_given_as_commands_do(tiny: Path, started: dict[str, str]) -> None:
    Path("link.duckdb").symlink_to(tiny)
    assert CliRunner().invoke(ui, ["link.duckdb", "--no-browser"]).exit_code == 0
    assert started["ATLAS_DB"] == str(tiny.with_name("link.duckdb"))


@pytest.mark.parametrize("address", ["1.2.3.4", "nosuchhost.invalid", "256.1.1.1", "localhost:80", "http://localhost", "", "a..b"])
def test_an_address_to_listen_at_is_checked_at_once(tiny: Path, started: dict[str, str], address: str) -> None:
    ended = CliRunner().invoke(ui, [str(tiny), "--no-browser", "--address", address])
    assert (ended.exit_code, started) == (2, {})
    assert f"this machine cannot listen at '{address}' (" in ended.stderr
    assert "give 127.0.0.1 for this machine alone" in ended.stderr and "without scheme or port" in ended.stderr


@pytest.mark.parametrize(("address", "is_alone"), [("127.0.0.1", True), ("localhost", True), ("127.0.0.2", True), ("0.0.0.0", False)])
def test_only_what_other_machines_reach_is_said_to_be_reached(tiny: Path, started: dict[str, str], address: str, is_alone: bool) -> None:
    ended = CliRunner().invoke(ui, [str(tiny), "--no-browser", "--address", address])
    assert ended.exit_code == 0
    assert (f"{address} may be reached from other machines" not in ended.stderr) == is_alone
    assert (socket.gethostname().lower() not in started["ATLAS_HOSTS"].split()) == is_alone


def test_where_the_system_limits_no_memory_it_is_said(tiny: Path, started: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot limit the memory of a process" not in CliRunner().invoke(ui, [str(tiny), "--no-browser"]).stderr
    monkeypatch.setattr("ui.cli.LIMITS_MEMORY", False)
    said = CliRunner().invoke(ui, [str(tiny), "--no-browser"]).stderr
    assert "note: this system cannot limit the memory of a process: statements are limited to 3 GB by DuckDB's own count, and to 10 seconds\n" in said


@pytest.mark.thorough
def test_a_browser_is_opened_where_the_pages_are(tiny: Path, tmp_path: Path) -> None:
    note, script = tmp_path / "opened", tmp_path / "browser.sh"
    script.write_text(f'#!/bin/sh\necho "$1" >> {note}\n')
    script.chmod(0o755)
    with serving(tiny, tmp_path / "log", "--browser", environment={"BROWSER": f"{script} %s"}) as server:
        # the shell makes the file before it writes to it
        wait_until(lambda: note.exists() and note.read_text(), "a browser is opened")
        assert note.read_text().strip().rstrip("/") == server.url


def test_what_a_server_keeps_is_bounded(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(os, "execve", lambda _program, arguments, _environment: started.extend(arguments))
    # the command leaves the folder it is called in for that of the pages
    monkeypatch.chdir(tiny.parent)
    assert CliRunner().invoke(ui, [str(tiny), "--no-browser"]).exit_code == 0
    bound = next(a.partition("=")[2] for a in started if a.startswith("--server.maxCacheDataSize="))
    assert config_max_cache_data_size_to_bytes(bound) == 512 * 1024**2


@pytest.mark.thorough
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_command_itself_is_the_server_and_ends_when_told(tiny: Path, tmp_path: Path, chromium: Browser, told: signal.Signals) -> None:
    with serving(tiny, tmp_path / "log") as server:
        page = chromium.new_page()
        page.goto(server.url)
        settled(page)
        os.kill(server.pid, told)
        wait_until(lambda: has_ended(server.pid), "the server ends, with a page open")
        page.close()


@pytest.mark.thorough
def test_the_folder_it_is_called_in_brings_no_code_and_no_configuration(tiny_original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, ran = tmp_path / "downloads", tmp_path / "ran"
    (folder / ".streamlit").mkdir(parents=True)
    (folder / ".streamlit" / "config.toml").write_text('[server]\nbaseUrlPath = "elsewhere"\n')
    (folder / "streamlit.py").write_text(f"open({str(ran)!r}, 'w')\n")
    monkeypatch.chdir(folder)
    # as the installed command begins, which has no such folder on its path
    monkeypatch.setattr(browser, "command", lambda path, *options: [sys.executable, "-P", *command(path, *options)[1:]])
    with serving(tiny_original, tmp_path / "log") as server:
        assert asked(server, "/", Host="localhost")[0] == 200
    assert not ran.exists()
