"""Progress of a long command on stderr: on a terminal, bars with rate and ETA; elsewhere, a line when a phase begins, when it ends, and every 30 seconds."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

EVERY = 30.0
"""Seconds between lines."""


def amount(task: Task) -> str:
    """Format the completed amount and the total, with their unit; '' for a stage, whose length is unknown."""
    return "" if task.total is None else f"{task.completed:,.0f}/{task.total:,.0f} {task.fields['unit']}"


def rate(task: Task) -> str:
    """Format the units per second, over the last 30 seconds; '' if unknown, and for a stage, which has no units."""
    return "" if not task.speed or task.total is None else f"{task.speed:,.{0 if task.speed > 10 else 2}f} {task.fields['unit']}/s"


class Column(ProgressColumn):
    def __init__(self, text: Any) -> None:
        super().__init__()
        self.text = text

    def render(self, task: Task) -> Text:
        return Text(self.text(task))


class Lines(Progress):
    """Progress as lines of text, for output that is no terminal: bars would fill a log."""

    def __init__(self, console: Console, every: float) -> None:
        super().__init__(console=console, disable=True)
        self.every, self.is_over = every, Event()
        self.teller = Thread(target=self.tell_again, daemon=True)

    def start(self) -> None:
        self.teller.start()

    def stop(self) -> None:
        self.is_over.set()
        self.teller.join()

    def say(self, text: str) -> None:
        # who no longer reads ends no work
        with suppress(OSError):
            self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def add_task(self, description: str, *args: Any, **fields: Any) -> TaskID:
        task = super().add_task(description, *args, **fields)
        self.say(f"{description}{amount(self._tasks[task]) and f': {amount(self._tasks[task])}'}")
        return task

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self.say_end(task_id)

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self.say_end(task_id)

    def say_end(self, task_id: TaskID) -> None:
        task = self._tasks[task_id]
        if task.finished and not task.fields.get("is_said"):
            task.fields["is_said"] = True
            self.say(f"{task.description}: done in {clock(task.elapsed)}")

    def tell_again(self) -> None:
        while not self.is_over.wait(self.every):
            memory = f"peak memory {peak_bytes() / 1e9:.1f} GB"
            for task in self.tasks:
                if not task.finished:
                    left = "" if task.time_remaining is None else f"ETA {clock(task.time_remaining)}"
                    self.say(", ".join(filter(None, (f"{task.description}: {amount(task) or clock(task.elapsed)}", rate(task), left, memory))))


def printable(text: str) -> str:
    """Replace unprintable characters: names of files and models may hold characters that a terminal acts on."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def clock(seconds: float | None) -> str:
    minutes, rest = divmod(round(seconds or 0), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def peak_bytes() -> int:
    """Measure the peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def progress_bar(is_quiet: bool = False, every: float = EVERY) -> Iterator[Progress]:
    """Open a progress bar. is_quiet: hide the bar; notes are still printed."""
    console = Console(stderr=True)
    if is_quiet or sys.stderr is None or sys.stderr.isatty():
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            Column(amount),
            Column(rate),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
        )
        shown = Progress(*columns, console=console, disable=is_quiet or sys.stderr is None)
    else:
        shown = Lines(console, every)
    with shown:
        yield shown


@contextmanager
def stage(bar: Progress, text: str) -> Iterator[None]:
    """Show a stage of unknown length while the block runs."""
    task = bar.add_task(printable(text), total=None, unit="")
    yield
    bar.update(task, total=1, completed=1)
