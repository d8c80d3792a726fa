"""Who sends slowly, does not take the answer or comes in crowds is hung up on, and what they held is free."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ingest.live import server as live_server
from ingest.live.server import server_of
from tests.waiting import HANG_S, wait_until

PIECE = b"x" * (1 << 18)


class Seen:
    """What became of requests."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def pour(self, _: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield PIECE
                    # a piece that nobody takes is let go of at once
                    await asyncio.sleep(0)
            finally:
                self.ended.append("poured")

        return StreamingResponse(body())

    async def take(self, request: Request) -> Response:
        try:
            await request.body()
        except ClientDisconnect:
            self.ended.append("cut")
        return Response()


@pytest.fixture
def seen() -> Seen:
    return Seen()


def served(seen: Seen, folder: Path, client: Callable[[Path], None]) -> None:
    """Run a client in a thread beside a server of this process; nobody is connected at its end."""

    async def run() -> None:
        path = folder / "s"
        with closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(str(path))
            listener.listen()
            server: uvicorn.Server = server_of(Starlette(routes=[Route("/pour", seen.pour), Route("/take", seen.take, methods=["POST"])]))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await asyncio.to_thread(client, path)
            async with asyncio.timeout(HANG_S):
                while server.server_state.connections:
                    await asyncio.sleep(0.01)
            server.should_exit = True
            await serving

    asyncio.run(run())


def connected(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(HANG_S)
    found.connect(str(path))
    return found


def is_hung_up_on(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("said", [b"", b"POST /take HTTP/1.1\r\nHost: x\r\n", b"POST /take HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"])
def test_a_request_that_does_not_come_to_its_end(seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(live_server, "ASKED_WITHIN", 0.5)

    def client(path: Path) -> None:
        with connected(path) as connection:
            connection.sendall(said)
            assert is_hung_up_on(connection)

    served(seen, tmp_path, client)
    assert seen.ended == (["cut"] if b"abc" in said else [])


def test_an_answer_that_nobody_takes(seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "TAKEN_WITHIN", 0.2)

    def client(path: Path) -> None:
        with connected(path) as connection:
            connection.sendall(b"GET /pour HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(lambda: seen.ended == ["poured"], "the answer is given up")

    served(seen, tmp_path, client)


def test_a_crowd(seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "MOST_CONNECTIONS", 3)

    def client(path: Path) -> None:
        crowd = [connected(path) for _ in range(4)]
        assert is_hung_up_on(crowd[3])
        crowd[0].sendall(b"POST /take HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" * 2)
        answer = b"".join(iter(lambda: crowd[0].recv(1 << 16), b""))
        assert (answer.count(b"HTTP/1.1 200"), b"connection: close" in answer) == (1, True)
        for connection in crowd:
            connection.close()

    served(seen, tmp_path, client)
