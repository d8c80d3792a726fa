"""Connection to the model process of an atlas, which is started if it is not running."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

from schema.errors import AtlasError
from schema.live import ADDRESS, TAKEN, UnixConnection, socket_path

START = 60.0
"""Seconds until a process that was started must answer; it loads the model afterwards."""

ANSWER = 120.0
"""Seconds without a message after which a process counts as dead: it reports every second, but a busy machine may delay the reports."""

PAUSE = 0.05

PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); from atlas.cli import main; main()"

TOLD = 2000
"""Characters at the end of the log that are searched for the last line of a process that ended."""


def connect_model_process(atlas: Path) -> HTTPConnection:
    """Connect to the model process at the address in ATLAS_LIVE, or else to the atlas's own, which is started if it is not running.

    Raises AtlasError if the process does not start, with the last line of its output.
    """
    if address := os.environ.get(ADDRESS):
        return connect_to_address(address)
    target = socket_path(atlas)
    connection = UnixConnection(target, ANSWER)
    with suppress(OSError):
        connection.connect()
        return connection
    log = target.with_suffix(".log")
    process = start_model_process(atlas, log)
    end = time.monotonic() + START
    while time.monotonic() < end:
        with suppress(OSError):
            connection.connect()
            return connection
        # another may have been started at the same moment, and have the socket; and may have been killed since
        if process.poll() not in (None, 0) and not has_owner(target):
            if process.returncode == TAKEN:
                process = start_model_process(atlas, log)
                continue
            raise AtlasError(f"the model process of {atlas} did not start: {last_words(log)}")
        time.sleep(PAUSE)
    raise AtlasError(f"the model process of {atlas} did not answer within {START:.0f} seconds; its output is in {log}")


def connect_to_address(address: str) -> HTTPConnection:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise AtlasError(f"{ADDRESS} is {address!r}; it must be HOST:PORT")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=ANSWER)
    try:
        connection.connect()
    except OSError as error:
        raise AtlasError(f"no model process answers at {address} ({ADDRESS}): {error.strerror or error}") from error
    return connection


def start_model_process(atlas: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the model process, which outlives the present process and gets none of its signals; its output goes to `log`."""
    command = [sys.executable, "-P", "-c", PROGRAM, str(Path(__file__).parents[2]), "live", os.fspath(atlas)]
    try:
        with os.fdopen(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as said:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
    except OSError as error:
        raise AtlasError(f"cannot start the model process of {atlas} with its output going to {log}: {error.strerror}") from error


def has_owner(target: Path) -> bool:
    """Tell whether a process holds the socket's lock."""
    import fcntl

    try:
        lock = os.open(target.with_suffix(".lock"), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def last_words(log: Path) -> str:
    said = log.read_text(encoding="utf-8", errors="replace")[-TOLD:].strip().splitlines()
    return said[-1] if said else "it wrote no output"
