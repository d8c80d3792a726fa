"""What a long command says of itself on stderr: bars with rate and ETA on a terminal; lines elsewhere, where a phase begins and ends, and every 30 seconds."""

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
"""Seconds from line to line."""


def amount(task: Task) -> str:
    """Show how much is done of how much; nothing of a stage, of which nobody knows how long it is."""
    return "" if task.total is None else f"{task.completed:,.0f}/{task.total:,.0f} {task.fields['unit']}"


def rate(task: Task) -> str:
    """Show the units a second, over the last minute."""
    return "" if not task.speed or task.total is None else f"{task.speed:,.{0 if task.speed > 10 else 2}f} {task.fields['unit']}/s"


class Column(ProgressColumn):
    def __init__(self, text: Any) -> None:
        super().__init__()
        self.text = text

    def render(self, task: Task) -> Text:
        return Text(self.text(task))


class Lines(Progress):
    """The same tasks as lines: a bar that nobody sees draw itself fills a log."""

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
            memory = f"{peak_bytes() / 1e9:.1f} GB of memory at most"
            for task in self.tasks:
                if not task.finished:
                    left = "" if task.time_remaining is None else f"ETA {clock(task.time_remaining)}"
                    self.say(", ".join(filter(None, (f"{task.description}: {amount(task) or clock(task.elapsed)}", rate(task), left, memory))))


def printable(text: str) -> str:
    """Make a line safe for a terminal, which acts on what names of files and models may hold."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def clock(seconds: float | None) -> str:
    minutes, rest = divmod(round(seconds or 0), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def peak_bytes() -> int:
    """Measure the most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def progress_bar(is_quiet: bool = False, every: float = EVERY) -> Iterator[Progress]:
    """Open a progress bar. is_quiet: show nothing of it; notes are printed all the same."""
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
    """Show a stage that takes its time, and nobody knows how much."""
    task = bar.add_task(printable(text), total=None, unit="")
    yield
    bar.update(task, total=1, completed=1)
