"""A test that passes its limit fails, and ends what it started; the run goes on. pytest-timeout raises in the test when its time is up.

Code that does not return to Python by then ends with its worker, by faulthandler_timeout (pyproject.toml): another worker takes its place and goes
on after that test.
"""

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_timeout

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling
    from xdist.workermanage import WorkerController

MARK = "ATLAS_TESTS_WORKER"
"""Environment variable of all that a worker starts. What it forks has it as its name: the system shows an environment as it was when a program began."""

AGAIN_S = 60
"""A test that goes on is ended again after so many seconds: something has kept the exception to itself."""

TICKS = os.sysconf("SC_CLK_TCK")

TOGETHER = ("tests/live/",)
"""Folders whose files share a process that takes long to start, and so are run by one worker: of the model."""


@dataclass(frozen=True)
class Process:
    """One of the machine's. started: as `ticks` counts."""

    pid: int
    parent: int
    name: str
    started: int


@dataclass
class Limited:
    """A test with a limit: its beginning, and what pytest-timeout is told."""

    began: int
    settings: Any = None
    is_over: bool = False


LIMITED = pytest.StashKey[Limited]()

SHARED: set[tuple[int, int]] = set()
"""Number and beginning of each process that a fixture of several tests has started."""


def ticks() -> int:
    """The system's, since it was started."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)


def processes() -> Iterator[Process]:
    """All that run; one that has ended stays to be seen until it is asked how."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            before, _, after = (folder / "stat").read_text(errors="replace").rpartition(")")
            rest = after.split()
            if rest[0] == "Z":
                continue
            yield Process(int(folder.name), int(rest[1]), before.partition("(")[2], int(rest[19]))


def mark_of(run: str, worker: str) -> str:
    """Fit for the name of a process, which has 15 bytes."""
    return f"{run[:8]}-{worker}"[:15]


def is_marked(process: Process, mark: str) -> bool:
    """Whether a worker has started it, also where whoever stood between them is gone."""
    with suppress(OSError):
        return process.name == mark or f"{MARK}={mark}".encode() in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    return False


def started_since(began: int) -> Iterator[Process]:
    """What this process has started, and what that has, but what fixtures of other tests use."""
    found = {process.pid: process for process in processes()}

    def descends(process: Process) -> bool:
        return process.parent == os.getpid() or (process.parent in found and descends(found[process.parent]))

    for process in found.values():
        is_new = process.started >= began and (process.pid, process.started) not in SHARED
        if is_new and (descends(process) or is_marked(process, os.environ[MARK])):
            yield process


def end_started(limited: Limited) -> None:
    """End what a test has started. PostgreSQL is left to whoever made it: where one of its processes is killed, all end."""
    for process in started_since(limited.began):
        if process.name != "postgres":
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", None)
    if given is None and config.getoption("numprocesses", None):
        # runs no test itself, and a worker's first environment is its own
        return
    os.environ[MARK] = mark_of(given["testrunuid"], given["workerid"]) if given else mark_of(str(os.getpid()), "alone")
    if given:
        Path("/proc/self/comm").write_text(os.environ[MARK])
        let_go_of_pipes()


def let_go_of_pipes() -> None:
    """Whatever is forked from now on has none of a worker's pipes: while one is open, nobody hears that the worker has ended."""
    pipes = [int(link.name) for link in Path("/proc/self/fd").iterdir() if link.is_fifo() and int(link.name) > 2]
    nothing = os.open(os.devnull, os.O_RDWR)
    os.register_at_fork(after_in_child=lambda: [os.dup2(nothing, pipe, inheritable=False) for pipe in pipes])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    limited = item.config.stash[LIMITED] = Limited(ticks())
    done = yield
    if limited.is_over:
        # what it started on its way out
        end_started(limited)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Before pytest-timeout raises in a test, end what the test has started: `with Popen(...)` would wait for it on the way out."""
    done = yield
    limited = item.config.stash[LIMITED]
    limited.settings = settings
    raises: Callable[[int, object], None] = signal.getsignal(signal.SIGALRM)  # type: ignore[assignment]

    def end(number: int, frame: object) -> None:
        if not pytest_timeout.is_debugging():
            limited.is_over = True
            # to the standard error stream as it is now, which the test's report shows
            faulthandler.dump_traceback(2)
            end_started(limited)
        raises(number, frame)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN_S)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Note what a fixture has started that outlives the test: it stays."""
    began = ticks()
    done = yield
    if fixturedef.scope != "function":
        SHARED.update((process.pid, process.started) for process in started_since(began))
    return done


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Give a teardown a limit of its own: pytest-timeout lets the clock stand still from the first failure on."""
    if settings := item.config.stash[LIMITED].settings:
        item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    """Stop the clock while a report is made: what is raised there ends the whole run. A passed set-up lets it go on, a teardown starts it anew."""
    left, again = signal.setitimer(signal.ITIMER_REAL, 0)
    done = yield
    if call.when == "setup" and not call.excinfo:
        signal.setitimer(signal.ITIMER_REAL, left, again)
    return done


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: "WorkerController", error: object) -> None:
    """End what a worker has left that broke off."""
    if error:
        mark = mark_of(node.workerinput["testrunuid"], node.workerinput["workerid"])
        for process in processes():
            if is_marked(process, mark):
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadFileScheduling | None":
    """Go on after a test that ended its worker: xdist gives that test to the next worker, and waits for ever where one other of its file is left."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class GoingOn(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            """The tests that one process runs: those of a file, or of a folder that shares what takes long to start."""
            return next((folder for folder in TOGETHER if nodeid.startswith(folder)), super()._split_scope(nodeid))

        def remove_node(self, node: "WorkerController") -> str | None:
            for tests in self.assigned_work.get(node, {}).values():
                for test, has_ended in tests.items():
                    if not has_ended:
                        tests[test] = True
                        super().remove_node(node)
                        return test
            return super().remove_node(node)

        def _assign_work_unit(self, node: "WorkerController") -> None:
            """A worker begins a test once it knows the next."""
            is_given = False
            while self.workqueue and not (is_given and self._pending_of(self.assigned_work[node]) > 1):
                super()._assign_work_unit(node)
                is_given = True

    return GoingOn(config, log)
