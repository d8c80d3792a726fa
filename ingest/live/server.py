"""The model process: one for each atlas, on a Unix socket in a folder that no other user can enter. It ends by itself after some time without a request.

It speaks a limited HTTP: one request per connection, and short time limits for a client that sends its request or receives its answer slowly.
"""

import asyncio
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ingest.live.app import Process
from ingest.live.engine import Engine
from ingest.live.tcp import TokenGuard
from ingest.workers.memory import set_mmap_threshold
from schema.live import socket_path
from schema.open.names import left_names, remove_left

MOST_CONNECTIONS = 128
"""Most connections to one socket; further ones are closed at once."""

ASKED_WITHIN = 10.0
"""Seconds from the connection to the end of the request."""

TAKEN_WITHIN = 30.0
"""Seconds that an answer may wait for the client to receive some of it."""


class TimeoutProtocol(H11Protocol):
    """HTTP protocol that aborts the connection of a client that is too slow. Its memory is freed at once: unsent data is dropped."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.untaken: asyncio.TimerHandle | None = None
        self.asking = self.loop.call_later(ASKED_WITHIN, self.hang_up_unasked)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()

    def hang_up_unasked(self) -> None:
        # a request that is asked for a second time on a connection is never read: each answer closes its own
        if self.cycle is None or self.conn.their_state is h11.SEND_BODY:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.asking.cancel()
        self.settle()
        super().connection_lost(exc)

    def settle(self) -> None:
        if self.untaken is not None:
            self.untaken.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.settle()
        self.untaken = self.loop.call_later(TAKEN_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        self.settle()
        super().resume_writing()


OPTIONS: dict[str, Any] = {"http": TimeoutProtocol, "ws": "none", "headers": [("connection", "close")]}
"""Options of uvicorn; they name the protocols, so that other installed ones are not used."""


LOOKED = 1.0
"""Seconds between checks whether the process has been idle for too long."""


TRIES, PAUSE = 4, 0.05
"""Attempts to take the lock, and seconds between them."""

MAPPED = 1 << 17
"""Smallest array, in bytes, that gets a memory mapping of its own: on the heap, gaps left by short-lived arrays between stored rows cost gigabytes."""


@dataclass(frozen=True)
class Port:
    """A port of this machine, and the secret token that requests to it must carry."""

    listener: socket.socket
    token: str


def serve(path: Path, source: str | None, device: str, idle: float, port: Port | None = None) -> bool:
    """Answer requests until idle or stopped; return False if another process already answers for this atlas. idle: seconds without a request."""
    target = socket_path(path)
    set_mmap_threshold(MAPPED)
    with claim_socket(target) as listener:
        if listener is None:
            return False
        # by processes that were killed while they opened the atlas, whose old contents such a name would keep on the disk
        with suppress(OSError):
            for folder in left_names(path):
                remove_left(folder)
        asyncio.run(answer(Engine(path, source, device), listener, idle, port))
    return True


def try_acquire_lock(lock: int) -> bool:
    """Try to take the lock, and tell whether that worked. Try several times, since a process that only checks whether the lock is free holds it briefly."""
    for _ in range(TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(PAUSE)
    return False


@contextmanager
def claim_socket(target: Path) -> Iterator[socket.socket | None]:
    """Claim the Unix socket, and yield it listening; None if another process owns it.

    The process that holds the lock beside the socket owns it, so that the socket of a killed process is taken over.
    """
    lock = os.open(target.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not try_acquire_lock(lock):
            yield None
            return
        with suppress(FileNotFoundError):
            target.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(target))
            target.chmod(0o600)
            listener.listen(64)
            try:
                yield listener
            finally:
                with suppress(FileNotFoundError):
                    target.unlink()
    finally:
        os.close(lock)


async def answer(engine: Engine, listener: socket.socket, idle: float, port: Port | None) -> None:
    """Answer requests: on the Unix socket those of any process that can enter its folder, on a port those of any client with the token."""

    def stop() -> None:
        for server, _ in servers:
            server.should_exit = True

    process = Process(engine, stop)
    servers = [(server_of(process.app), listener)]
    if port is not None:
        servers.append((server_of(TokenGuard(process.app, port.token)), port.listener))

    async def watch() -> None:
        while not any(server.should_exit for server, _ in servers):
            await asyncio.sleep(LOOKED)
            if not process.jobs.line and time.monotonic() - process.last_asked > idle:
                break
        # a signal reaches one of them
        stop()

    await asyncio.gather(watch(), *(server.serve(sockets=[taken]) for server, taken in servers))


def server_of(app: ASGIApp) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off", timeout_graceful_shutdown=5, **OPTIONS))
