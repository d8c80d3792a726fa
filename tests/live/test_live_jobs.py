"""The line of requests, without a model: places, the end of those that nobody waits for, and when it is full."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ingest.live.jobs import Busy, Cancelled, Jobs, Tell, limit_time
from schema.errors import AtlasError
from schema.live import QUEUE
from tests.waiting import HANG_S


async def said(jobs: Jobs, visitor: str, job: Any) -> list[dict[str, Any]]:
    return [event async for event in jobs.events(jobs.enter(visitor, job))]


async def until(happened: Callable[[], bool]) -> None:
    """Let the others of the loop go on until something has happened."""
    async with asyncio.timeout(HANG_S):
        while not happened():
            await asyncio.sleep(0.001)


def test_one_is_served_at_a_time_and_places_are_told() -> None:
    running, most = 0, 0

    def job(tell: Tell) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for step in range(5):
            tell("working", step / 5)
            threading.Event().wait(0.03)
        running -= 1
        return "done"

    async def run() -> list[list[dict[str, Any]]]:
        jobs = Jobs()
        return await asyncio.gather(*(said(jobs, str(i), job) for i in range(3)))

    found = asyncio.run(run())
    assert most == 1
    assert [events[-1] for events in found] == [{"result": "done"}] * 3
    places = [[event["waiting"] for event in events if "waiting" in event] for events in found]
    assert (places[0], sorted(set(places[2]))) == ([], [1, 2])
    assert {"stage": "working", "share": 0.8} in found[0]


def test_a_job_that_nobody_waits_for_ends_at_its_next_step() -> None:
    def job(tell: Tell) -> None:
        while True:
            tell("working", 0.0)
            threading.Event().wait(0.01)

    async def run() -> list[dict[str, Any]]:
        jobs = Jobs()
        events = jobs.events(jobs.enter("a", job))
        async for event in events:
            if event.get("stage") == "working":
                break
        await events.aclose()  # type: ignore[attr-defined]
        return await said(jobs, "b", lambda _: "next")

    assert asyncio.run(run())[-1] == {"result": "next"}


def test_a_later_request_of_a_visitor_takes_the_place_of_the_one_that_waits() -> None:
    free = threading.Event()

    async def run() -> tuple[Any, Any]:
        jobs = Jobs()
        first = asyncio.create_task(said(jobs, "a", lambda _: free.wait(HANG_S)))
        await until(lambda: len(jobs.line) == 1)
        waiting = asyncio.create_task(said(jobs, "a", lambda _: "second"))
        await until(lambda: len(jobs.line) == 2)
        later = asyncio.create_task(said(jobs, "a", lambda _: "third"))
        await until(waiting.done)
        free.set()
        return await asyncio.gather(first, waiting, later, return_exceptions=True)

    first, waiting, later = asyncio.run(run())
    assert first[-1] == {"result": True}
    assert isinstance(waiting, Cancelled)
    assert later[-1] == {"result": "third"}


def test_twenty_visitors_who_ask_at_once_all_wait_and_are_served() -> None:
    async def run() -> list[str]:
        jobs = Jobs()
        tickets = [jobs.enter(str(i), lambda _, i=i: f"answer {i}") for i in range(20)]
        return await asyncio.gather(*(ticket.future for ticket in tickets))

    assert asyncio.run(run()) == [f"answer {i}" for i in range(20)]


def test_a_full_line_says_so() -> None:
    free = threading.Event()

    async def run() -> None:
        jobs = Jobs()
        tickets = [jobs.enter(str(i), lambda _: free.wait(HANG_S)) for i in range(QUEUE + 1)]
        with pytest.raises(Busy, match=f"{QUEUE + 1} requests are in line and 0 answers"):
            jobs.enter("late", lambda _: None)
        free.set()
        await asyncio.gather(*(ticket.future for ticket in tickets))
        await until(lambda: jobs.line == [])

    asyncio.run(run())


def test_who_goes_away_or_asks_anew_leaves_the_line_at_once() -> None:
    """Or thousands would pile up behind one long job."""
    free = threading.Event()

    async def run() -> None:
        jobs = Jobs()
        first = asyncio.create_task(said(jobs, "first", lambda _: free.wait(HANG_S)))
        await until(lambda: len(jobs.line) == 1)
        waiting = [asyncio.create_task(said(jobs, "again and again", lambda _: None)) for _ in range(20)]
        gone = [asyncio.create_task(said(jobs, str(i), lambda _: None)) for i in range(5)]
        # the one that runs, the last of twenty, and five
        await until(lambda: len(jobs.line) == 7)
        for task in gone:
            task.cancel()
        await until(lambda: len(jobs.line) == 2)
        assert [isinstance(task.exception(), Cancelled) for task in waiting[:-1]] == [True] * 19
        free.set()
        await asyncio.gather(first, waiting[-1])

    asyncio.run(run())


def test_a_job_that_takes_too_long_is_ended() -> None:
    told: list[str] = []
    limit_time(3600, lambda stage, share, **_: told.append(stage))("working", 0.0)
    tell = limit_time(0.05, lambda stage, share, **_: told.append(stage))
    threading.Event().wait(0.1)
    with pytest.raises(AtlasError, match="this takes longer than 0.05 seconds"):
        tell("working", 0.5)
    assert told == ["working"]
