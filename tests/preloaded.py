"""Processes of their own that have the libraries of an ingest loaded already, which takes seconds: they are forked from one that has done no more."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

CONTEXT = multiprocessing.get_context("forkserver")
# what these import starts no thread, which a fork would not bring along
CONTEXT.set_forkserver_preload(["tests.crash.kill_loop", "tests.exact.tiny", "ingest.cli", "tests.imported"])


def started(code: str, *arguments: str) -> Callable[[], subprocess.CompletedProcess[str]]:
    """Begin what `python -c CODE ARGUMENTS` would do; what is returned waits for its end. Libraries were loaded in the environment of the first."""
    folder = TemporaryDirectory()
    out, err = (Path(folder.name, name) for name in ("out", "err"))
    process = CONTEXT.Process(target=execute, args=(code, arguments, dict(os.environ), str(out), str(err)))
    process.start()

    def ended() -> subprocess.CompletedProcess[str]:
        with folder:
            # the limit of a test ends it with all that it has started
            process.join()
            assert process.exitcode is not None
            return subprocess.CompletedProcess(code, process.exitcode, out.read_text(), err.read_text())

    return ended


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Do it, to its end."""
    return started(code, *arguments)()


def told(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that it printed. DuckDB draws a bar between them where a statement takes seconds, as it sees no script and takes the process for a person's."""
    return [line for line in done.stdout.splitlines() if line and "▕" not in line]


def execute(code: str, arguments: tuple[str, ...], environment: dict[str, str], out: str, err: str) -> None:
    os.environ.update(environment)
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<code of a test>", "exec"), {"__name__": "__main__"})
