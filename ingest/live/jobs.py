"""Jobs that run one at a time, while the others wait in line. They do not share a batch, since prompts of one batch change each other's rounding."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from schema.errors import AtlasError
from schema.live import MOST_UNTAKEN, QUEUE

HEARTBEAT = 1.0
"""Seconds after which a waiting client is sent its place in line again, so that a client that has disconnected is noticed."""

LOOKED = 0.02
"""Seconds between checks for news to send."""

REPLACED = "a later request of yours took the place of this one"

Event = dict[str, Any]


class Tell(Protocol):
    """Function that receives progress. stage: the current work. share: the done part, in [0, 1]. more: other things to show. If it raises, the work ends."""

    def __call__(self, stage: str, share: float, **more: object) -> None: ...


def limit_time(seconds: float, tell: Tell) -> Tell:
    """Wrap `tell` so that it raises AtlasError once this many seconds have passed."""
    end = time.monotonic() + seconds

    def report_stage(stage: str, share: float, **more: object) -> None:
        if time.monotonic() > end:
            raise AtlasError(f"this takes longer than {seconds:g} seconds, and is ended: give a shorter prompt, fewer arms or fewer new tokens")
        tell(stage, share, **more)

    return report_stage


class Cancelled(Exception):
    """Exception that ends a job whose client does not wait for the answer any more."""


class Busy(AtlasError):
    """Error for a request that comes while the line is full."""


class Ticket:
    """A request in line: the stage of its job, which the worker thread runs when its turn comes, and the job's result."""

    def __init__(self, visitor: str) -> None:
        self.visitor = visitor
        self.gone, self.has_begun = threading.Event(), False
        self.future: asyncio.Future[Any]
        self.stage: Event = {"stage": "waiting", "share": 0.0}

    def tell(self, stage: str, share: float, **more: object) -> None:
        """Record the current stage; the worker thread calls this between layers and tables. Raises Cancelled if no client waits for the answer."""
        if self.gone.is_set():
            raise Cancelled(REPLACED)
        self.stage = {"stage": stage, "share": round(share, 4), **more}

    def begin(self, job: Callable[[Tell], Any]) -> Any:
        self.tell("begun", 0.0)
        return job(self.tell)


class Jobs:
    """A line of tickets, at most QUEUE behind the running one. While more than MOST_UNTAKEN answers, each stored whole, are being sent, the line takes none."""

    def __init__(self) -> None:
        self.line: list[Ticket] = []
        self.n_untaken = 0
        self.turn, self.executor = asyncio.Lock(), ThreadPoolExecutor(1)

    def enter(self, visitor: str, job: Callable[[Tell], Any]) -> Ticket:
        """Put a job at the end of the line, and drop the waiting jobs of the same visitor. Raises Busy if the line is full."""
        for ticket in self.line[1:]:
            if ticket.visitor == visitor:
                self.drop(ticket)
        n_waiting = sum(not ticket.gone.is_set() for ticket in self.line)
        if n_waiting > QUEUE or self.n_untaken > MOST_UNTAKEN:
            raise Busy(f"{n_waiting} requests are in line and {self.n_untaken} answers are being sent, and no more can wait: ask again in a moment")
        self.line.append(ticket := Ticket(visitor))
        ticket.future = asyncio.ensure_future(self.run_job(ticket, job))
        ticket.future.add_done_callback(lambda done: self.leave(ticket, done))
        return ticket

    async def run_job(self, ticket: Ticket, job: Callable[[Tell], Any]) -> Any:
        async with self.turn:
            ticket.has_begun = True
            return await asyncio.get_running_loop().run_in_executor(self.executor, ticket.begin, job)

    def drop(self, ticket: Ticket) -> None:
        """Cancel a ticket that no client waits for: its job ends at its next step, or leaves the line at once if it has not begun."""
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
        """Yield the events of a ticket: its place in line, then its stages, and finally {"result": …}. Raises the job's own exception.

        If the generator is closed, the job ends at its next step; the next job waits until then.
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
