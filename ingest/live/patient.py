"""HTTP to a point: one request a connection, and none waits for long for a client that sends slowly, or does not take its answer."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 128
"""To one socket; more are hung up on."""

ASKED_WITHIN = 10.0
"""Seconds from the connection to the end of the request."""

TAKEN_WITHIN = 30.0
"""Seconds that an answer may wait for who asked to take some of it."""


class Patient(H11Protocol):
    """Hangs up on who is too slow. What they held is free at once: nothing waits until it is sent."""

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


OPTIONS: dict[str, Any] = {"http": Patient, "ws": "none", "headers": [("connection", "close")]}
"""Of uvicorn, whichever other protocols are installed."""
