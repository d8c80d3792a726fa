"""Execution of a stranger's statement in a separate process, which is ended when it exceeds a limit of time, memory or bytes of the answer.

DuckDB itself checks for interrupts only between vectors of rows, and counts its buffers but not what a function allocates; the kernel enforces the limits of
time and memory on the process. The process opens the atlas by itself (atlas/typed/sandbox_child.py), answers one statement and ends.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from atlas.typed.execution import MAX_ROWS, TIMEOUT, Result, require_limits, timeout_message
from schema import errors

MEMORY = 4 << 30
"""Bytes of address space that the process may take beyond what it has when the statement begins."""

MAX_BYTES = 1 << 30
"""Most bytes of an answer."""

START = 10.0
"""Seconds that the process may take to start and to open the atlas, in addition to the time limit of the statement."""

PIECE = 1 << 20

Process = subprocess.Popen[bytes]

PROGRAM = "import sys; sys.path.append(sys.argv[1]); from atlas.typed.sandbox_child import main; main()"

FRUGAL = {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Environment variables of the process. Without them, glibc reserves address space for each thread, and Arrow a gigabyte at once."""


def start_process() -> Process:
    """Start a process that waits for its statement: it loads its libraries, opens nothing yet, and ends when its caller does."""
    # without the folder it is called in, where a file may be called as a module is
    command = [sys.executable, "-P", "-c", PROGRAM, str(Path(__file__).parents[2])]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **FRUGAL})


def run(
    path: Path | str,
    sql: str,
    *,
    max_rows: int = MAX_ROWS,
    timeout: float = TIMEOUT,
    max_bytes: int = MAX_BYTES,
    memory: int = MEMORY,
    process: Process | None = None,
) -> Result:
    """Run one SELECT over the atlas at `path`: at most `max_rows` rows of `max_bytes` bytes within `timeout` seconds.

    process: one from `start_process`, which answers this statement alone; None to start one.
    Raises what `atlas.typed.execution.run_select` raises, QueryTimeout past the time limit, AtlasError if the limit of memory or of bytes was exceeded.
    """
    with begin_query(path, sql, max_rows=max_rows, timeout=timeout, max_bytes=max_bytes, memory=memory, process=process) as answer:
        return answer()


@contextmanager
def begin_query(
    path: Path | str,
    sql: str,
    *,
    max_rows: int = MAX_ROWS,
    timeout: float = TIMEOUT,
    max_bytes: int = MAX_BYTES,
    memory: int = MEMORY,
    process: Process | None = None,
) -> Iterator[Callable[[], Result]]:
    """Begin what `run` does, and yield a function that waits for the answer; the process ends with the block."""
    require_limits(max_rows, timeout)
    asked = {"path": str(path), "sql": sql, "max_rows": max_rows, "timeout": timeout, "max_bytes": max_bytes, "memory": memory, "start": START}
    process = process or start_process()
    end = time.monotonic() + START + timeout
    assert process.stdin is not None and process.stdout is not None
    stdout = process.stdout

    def answer() -> Result:
        said = read_until(stdout, end, 2 * max_bytes + PIECE)
        process.kill()
        return result(said, process.wait(), timeout, memory, max_bytes)

    try:
        with suppress(BrokenPipeError):
            # left open: when it closes, whoever asked has gone
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
        yield answer
    finally:
        process.kill()
        process.wait()
        with suppress(BrokenPipeError):
            process.stdin.close()
        stdout.close()


def read_until(stream: IO[bytes], deadline: float, most: int) -> bytes | None:
    """Read all that a process writes until it closes its end; None if it has not closed it by `deadline`, or writes more than `most` bytes."""
    pieces: list[bytes] = []
    n = 0
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while n <= most and selector.select(max(deadline - time.monotonic(), 0)):
            piece = os.read(stream.fileno(), PIECE)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            n += len(piece)
    return None


def result(said: bytes | None, code: int, timeout: float, memory: int, max_bytes: int) -> Result:
    """Turn the output of the process into rows, or raise the error that it reports. code: its exit code."""
    if said is None or code == -signal.SIGALRM:
        raise errors.QueryTimeout(timeout_message(timeout))
    head, _, rows = said.partition(b"\n")
    if code != 0 or not head:
        raise errors.AtlasError(
            f"stopped: the process of this statement ended, most often because a statement needs more than the {memory >> 20:,} MB that it may take"
        )
    answer = json.loads(head)
    if "error" in answer:
        raise getattr(errors, answer["error"], errors.AtlasError)(answer["message"])
    if answer["n_bytes"] > max_bytes:
        raise errors.AtlasError(f"the answer has more than {max_bytes >> 20:,} MB: ask for fewer rows or columns")
    from pyarrow import ipc

    from atlas.typed.values import frame_of

    frame = frame_of(ipc.open_stream(rows).read_all())
    return Result(frame.head(answer["max_rows"]), frame.height > answer["max_rows"])
