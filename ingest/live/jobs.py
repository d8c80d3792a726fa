"""One job at a time, the others in line: strangers' prompts in one batch would change each other's bits."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from schema.errors import AtlasError
from schema.live import QUEUE

HEARTBEAT = 1.0
"""Seconds after which whoever waits hears again where they are, so that one who has gone is noticed."""

LOOKED = 0.02
"""Seconds between looks at what there is to say."""

Event = dict[str, Any]


class Tell(Protocol):
    """Told what is being done, which share of it is, and more to show; raises what ends the work."""

    def __call__(self, stage: str, share: float, **more: object) -> None: ...


class Cancelled(Exception):
    """Whoever asked has gone."""


class Busy(AtlasError):
    """No more can wait."""


class Ticket:
    """A request in line, and the thread's work on it once it is its turn."""

    def __init__(self, visitor: str) -> None:
        self.visitor = visitor
        self.gone = threading.Event()
        self.stage: Event = {"stage": "waiting", "share": 0.0}

    def tell(self, stage: str, share: float, **more: object) -> None:
        """Called by the thread that works, between layers and tables. Raises Cancelled if nobody waits for the answer."""
        if self.gone.is_set():
            raise Cancelled("a later request of yours took the place of this one")
        self.stage = {"stage": stage, "share": round(share, 4), **more}

    def begin(self, job: Callable[[Tell], Any]) -> Any:
        self.tell("begun", 0.0)
        return job(self.tell)


class Jobs:
    """A line of at most QUEUE tickets behind the one that is served."""

    def __init__(self) -> None:
        self.line: list[Ticket] = []
        self.executor = ThreadPoolExecutor(1)

    def enter(self, visitor: str, job: Callable[[Tell], Any]) -> tuple[Ticket, asyncio.Future[Any]]:
        """Put a job in line, in the place of one of the same visitor's that waits. Raises Busy if the line is full."""
        for ticket in self.line[1:]:
            if ticket.visitor == visitor:
                ticket.gone.set()
        if sum(not ticket.gone.is_set() for ticket in self.line) > QUEUE:
            raise Busy(f"{QUEUE} requests are in line, and no more can wait: ask again in a moment")
        self.line.append(ticket := Ticket(visitor))
        future = asyncio.get_running_loop().run_in_executor(self.executor, ticket.begin, job)
        future.add_done_callback(lambda done: self.leave(ticket, done))
        return ticket, future

    def leave(self, ticket: Ticket, done: asyncio.Future[Any]) -> None:
        self.line.remove(ticket)
        # what nobody waits for any more is nobody's error
        if not done.cancelled():
            done.exception()

    def news(self, ticket: Ticket) -> Event:
        place = self.line.index(ticket) if ticket in self.line else 0
        return {"waiting": place} if place else ticket.stage

    async def events(self, ticket: Ticket, future: asyncio.Future[Any]) -> AsyncIterator[Event]:
        """What becomes of a ticket: its place in line, what is being done, and at last {"result": …}. Raises what the job raises.

        When it is closed, the job ends at its next step, and the next waits for that.
        """
        try:
            while not future.done():
                yield (said := self.news(ticket))
                for _ in range(round(HEARTBEAT / LOOKED)):
                    await asyncio.wait([future], timeout=LOOKED)
                    if future.done() or self.news(ticket) != said:
                        break
            yield {"result": future.result()}
        finally:
            ticket.gone.set()
