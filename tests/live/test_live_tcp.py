"""The port: who has no token gets nothing."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers

import atlas
from ingest.live.tcp import TokenGuard, new_token, open_listener
from schema.errors import AtlasError
from schema.live import ADDRESS, TOKEN, socket_path
from tests.live.conftest import PROMPT, World, live_process, private_sockets


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def port(world: World) -> Iterator[int]:
    with private_sockets():
        found = free_port()
        with live_process(world, "--tcp", f"127.0.0.1:{found}"):
            yield found


@pytest.fixture
def token(port: int, world: World) -> str:
    path = socket_path(world.atlas).with_suffix(".token")
    assert path.stat().st_mode & 0o777 == 0o600
    return path.read_text()


def status(port: int, *headers: tuple[str, str]) -> tuple[int, dict]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.putrequest("GET", "/", skip_host=True)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"{}") if response.status != 400 else {}


@pytest.mark.thorough
def test_only_the_token_passes(port: int, token: str) -> None:
    """From a page of another origin, and under a name that points here, as well."""
    host, right = ("Host", f"127.0.0.1:{port}"), ("Authorization", f"Bearer {token}")
    assert len(token) == 64
    for named in (host, ("Host", "localhost:9000")):
        assert status(port, named, right)[0] == 200
        for more in ((), (("Origin", f"http://127.0.0.1:{port}"),), (("Origin", "http://evil.example"),)):
            for wrong in ("", "Bearer", f"Bearer {token[:-1]}", f"Bearer {token}0", f"bearer {token}", f"Basic {token}", "Bearer é"):
                code, said = status(port, named, ("Authorization", wrong), *more)
                assert (code, "ATLAS_LIVE_TOKEN" in said["message"], token in said["message"]) == (401, True, False)
            assert status(port, named, *more)[0] == 401
            assert status(port, named, right, right, *more)[0] == 401


def test_a_token_is_256_bits_none_of_which_follows_from_the_others(tmp_path: Path) -> None:
    """By the rank over two of as many tokens again as there are bits: what is drawn of fewer, and repeated, has less."""
    with private_sockets():
        drawn = [int(new_token(tmp_path / "a.duckdb")[0], 16) for _ in range(320)]
    leading: dict[int, int] = {}
    for token in drawn:
        rest = token
        while rest and (known := leading.get(rest.bit_length())):
            rest ^= known
        leading |= {rest.bit_length(): rest} if rest else {}
    assert len(leading) == 256


def test_a_token_that_comes_twice_is_none() -> None:
    """Without a server, which may refuse it first: who reads one and who acts on it could take different ones."""
    has_token, token = TokenGuard(Starlette(), "t").has_token, (b"authorization", b"Bearer t")
    assert has_token(Headers(raw=[token]))
    assert not has_token(Headers(raw=[token, token]))


@pytest.mark.thorough
def test_whoever_has_the_token_asks_as_on_the_socket(port: int, token: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, f"127.0.0.1:{port}")
    with atlas.open(world.atlas) as a:
        with pytest.raises(AtlasError, match="the token is missing or wrong"):
            a.live().trace(PROMPT)
        monkeypatch.setenv(TOKEN, token)
        assert a.live().trace(PROMPT).positions.height > 5
        monkeypatch.setenv(ADDRESS, f"127.0.0.1:{free_port()}")
        with pytest.raises(AtlasError, match="no model process answers at"):
            a.live().trace(PROMPT)
        monkeypatch.setenv(ADDRESS, "nonsense")
        with pytest.raises(AtlasError, match="it must be HOST:PORT"):
            a.live().trace(PROMPT)


@pytest.mark.parametrize("address", ["0.0.0.0:80", ":80", "localhost:80", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999", "192.168.0.1:80", "[::]:80"])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(AtlasError, match="which only this machine can reach"):
        open_listener(address)


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AtlasError, match="cannot listen on"):
            open_listener(f"127.0.0.1:{taken.getsockname()[1]}")
