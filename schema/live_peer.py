"""The process at the other end of the model process's socket: whether it hangs, and its end if it does. Linux alone says so; elsewhere nobody is ended."""

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
"""Seconds within which a process says something: it does so every second, but a busy machine may keep it from that."""

GONE = 10.0
"""Seconds that the end of a process may take."""

HANGING = "TtS"
"""States of a process that may hang: stopped by a signal or a debugger, or waiting for what is to come, and not for a disk or its turn on a processor."""


@dataclass(frozen=True)
class Peer:
    """A process as it was. started: when, in ticks since the machine was, so that no other of its number is taken for it; ticks: of processor time."""

    pid: int
    started: int
    ticks: int

    def is_hung(self) -> bool:
        """Tell whether the process is stopped, or has waited without a tick of processor time since."""
        now = process_at(self.pid)
        if now is None or now[1] != self:
            return False
        return now[0] in HANGING

    def end(self) -> None:
        """Kill it and wait until it is gone."""
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
    """Find the model process that listens at the other end of a Unix socket; None where the system does not say, or it is none, as where ssh forwards one."""
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
    """Read the state of a process, one letter, and the process; None where there is none."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return words[0], Peer(pid, int(words[19]), int(words[11]) + int(words[12]))


def is_stuck(pid: int) -> bool:
    """Tell whether a process that has not answered hangs from now on."""
    before = process_at(pid)
    time.sleep(WORD)
    return before is not None and before[1].is_hung()


def wait_readable(handle: int, seconds: float) -> bool:
    """Wait until there is something to read, or the end of it, and tell whether that came within so many seconds."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(1000 * seconds))
