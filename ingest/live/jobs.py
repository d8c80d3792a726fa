"""One job at a time, the others in line: strangers' prompts in one batch would change each other's bits."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from schema.errors import AtlasError
from schema.live import MOST_UNTAKEN, QUEUE

HEARTBEAT = 1.0
"""Seconds after which whoever waits hears again where they are, so that one who has gone is noticed."""

LOOKED = 0.02
"""Seconds between looks at what there is to say."""

REPLACED = "a later request of yours took the place of this one"

Event = dict[str, Any]


class Tell(Protocol):
    """Told what is being done, which share of it is, and more to show; raises what ends the work."""

    def __call__(self, stage: str, share: float, **more: object) -> None: ...


def limit_time(seconds: float, tell: Tell) -> Tell:
    """Wrap `tell` so that it raises AtlasError once so many seconds have gone by."""
    end = time.monotonic() + seconds

    def report_stage(stage: str, share: float, **more: object) -> None:
        if time.monotonic() > end:
            raise AtlasError(f"this takes longer than {seconds:g} seconds, and is ended: give a shorter prompt, or fewer arms or new tokens")
        tell(stage, share, **more)

    return report_stage


class Cancelled(Exception):
    """Whoever asked has gone."""


class Busy(AtlasError):
    """No more can wait."""


class Ticket:
    """A request in line, and the thread's work on it once it is its turn."""

    def __init__(self, visitor: str) -> None:
        self.visitor = visitor
        self.gone, self.has_begun = threading.Event(), False
        self.future: asyncio.Future[Any]
        self.stage: Event = {"stage": "waiting", "share": 0.0}

    def tell(self, stage: str, share: float, **more: object) -> None:
        """Note what is being done; called by the thread that works, between layers and tables. Raises Cancelled if nobody waits for the answer."""
        if self.gone.is_set():
            raise Cancelled(REPLACED)
        self.stage = {"stage": stage, "share": round(share, 4), **more}

    def begin(self, job: Callable[[Tell], Any]) -> Any:
        self.tell("begun", 0.0)
        return job(self.tell)


class Jobs:
    """A line of at most QUEUE tickets behind the one that is served, while at most MOST_UNTAKEN answers, which are held whole, are still being sent."""

    def __init__(self) -> None:
        self.line: list[Ticket] = []
        self.n_untaken = 0
        self.turn, self.executor = asyncio.Lock(), ThreadPoolExecutor(1)

    def enter(self, visitor: str, job: Callable[[Tell], Any]) -> Ticket:
        """Put a job in line, in the place of one of the same visitor's that waits. Raises Busy if the line is full."""
        for ticket in self.line[1:]:
            if ticket.visitor == visitor:
                self.drop(ticket)
        n_waiting = sum(not ticket.gone.is_set() for ticket in self.line)
        if n_waiting > QUEUE or self.n_untaken > MOST_UNTAKEN:
            raise Busy(f"{n_waiting} requests are in line and {self.n_untaken} answers on their way, and no more can wait: ask again in a moment")
        self.line.append(ticket := Ticket(visitor))
        ticket.future = asyncio.ensure_future(self.run_job(ticket, job))
        ticket.future.add_done_callback(lambda done: self.leave(ticket, done))
        return ticket

    async def run_job(self, ticket: Ticket, job: Callable[[Tell], Any]) -> Any:
        async with self.turn:
            ticket.has_begun = True
            return await asyncio.get_running_loop().run_in_executor(self.executor, ticket.begin, job)

    def drop(self, ticket: Ticket) -> None:
        """Let go of a ticket that nobody waits for: it ends at its next step, and leaves the line at once if it has not begun."""
        ticket.gone.set()
        if not ticket.has_begun:
            ticket.future.cancel()

    def leave(self, ticket: Ticket, done: asyncio.Future[Any]) -> None:
        self.line.remove(ticket)
        # what nobody waits for any more is nobody's error
        if not done.cancelled():
            done.exception()

    def news(self, ticket: Ticket) -> Event:
        place = self.line.index(ticket) if ticket in self.line else 0
        return {"waiting": place} if place else ticket.stage

    async def events(self, ticket: Ticket) -> AsyncIterator[Event]:
        """Yield what becomes of a ticket: its place in line, what is being done, and at last {"result": …}. Raises what the job raises.

        When it is closed, the job ends at its next step, and the next waits for that.
        """
        try:
            while not ticket.future.done():
                yield (said := self.news(ticket))
                for _ in range(round(HEARTBEAT / LOOKED)):
                    await asyncio.wait([ticket.future], timeout=LOOKED)
                    if ticket.future.done() or self.news(ticket) != said:
                        break
            if ticket.future.cancelled():
                raise Cancelled(REPLACED)
            self.n_untaken += 1
            try:
                yield {"result": ticket.future.result()}
            finally:
                self.n_untaken -= 1
        finally:
            self.drop(ticket)
