"""The model process as its client sees it, at the other end of a socket: the client tells whether it hangs, and kills it if so. On Linux only."""

import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

WORD = 5.0
"""Seconds within which a model process must send a line: it sends one every second, but a busy machine may delay it."""

GONE = 10.0
"""Seconds to wait for a killed process to end."""

HANGING = "TtS"
"""States of a process that may hang: stopped by a signal or a debugger, or asleep until an event, but not waiting for a disk or for a processor."""


@dataclass(frozen=True)
class Peer:
    """A process at one moment.

    started: when it started, in clock ticks since the machine's start; this tells it from a later process with the same PID. ticks: processor time used so far.
    """

    pid: int
    started: int
    ticks: int

    def is_hung(self) -> bool:
        """Tell whether the process is stopped or asleep, and has used no tick of processor time since this record was made."""
        now = process_at(self.pid)
        if now is None or now[1] != self:
            return False
        return now[0] in HANGING

    def end(self) -> None:
        """Kill the process, and wait until it is gone."""
        with suppress(OSError):
            handle = os.pidfd_open(self.pid)
            try:
                now = process_at(self.pid)
                if now is not None and now[1].started == self.started:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    wait_readable(handle, GONE)
            finally:
                os.close(handle)


def peer_of(sock: socket.socket | None) -> Peer | None:
    """Find the model process that listens at the other end of a Unix socket; None if the system does not say, or for another process, such as ssh."""
    if sys.platform != "linux" or sock is None or sock.family != socket.AF_UNIX:
        return None
    pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    found = process_at(pid) if pid and pid != os.getpid() and is_model_process(pid) else None
    return found and found[1]


def is_model_process(pid: int) -> bool:
    """Tell whether a process runs `atlas live`."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"live" in words and any(b"atlas" in word for word in words[: words.index(b"live")])


def process_at(pid: int) -> tuple[str, Peer] | None:
    """Read the one-letter state of a process, and its record as a Peer; None if there is no such process."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return words[0], Peer(pid, int(words[19]), int(words[11]) + int(words[12]))


def is_stuck(pid: int) -> bool:
    """Watch a process that has not answered, for another WORD seconds, and tell whether it hangs."""
    before = process_at(pid)
    time.sleep(WORD)
    return before is not None and before[1].is_hung()


def wait_readable(handle: int, seconds: float) -> bool:
    """Wait until a handle has data to read, or has reached its end; return whether that happened within `seconds`."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(1000 * seconds))
