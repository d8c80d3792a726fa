"""What the model process and those who ask it agree on: where its socket is, how much it takes, and how it answers.

A request is one JSON object. The answer is lines of JSON, each what is being done, until one that has `tables` (name → bytes), behind whose line break the
tables follow as Arrow streams in that order; or one that has `error`.
"""

import hashlib
import os
import socket
import stat
import tempfile
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

from schema.errors import AtlasError

MOST_BODY = 256 << 10
"""Bytes of a request."""

MOST_PROMPT_TOKENS = 1024
MOST_NEW_TOKENS = 256
MOST_ARMS = 64

MOST_POSITIONS = 1024
"""Tokens that are traced at once, those of the prompt again under each arm, and for each run of its own that arms take states from: what is kept of each takes
half a megabyte in a small model. The mask of a layer with blocked edges goes with them too: it has as many rows, and is let go of after the layer."""

MOST_FORWARDS = 4096
"""Sequences that one request may have read, new tokens times arms among them."""

LONGEST = 600.0
"""Seconds that a request may take once it is its turn and the model is there."""

QUEUE = 64
"""Requests that wait while one is answered; a visitor has one of them at most."""

MOST_UNTAKEN = 8
"""Answers that are held while they are sent."""

TAKEN = 75
"""Exit status of a process that found another answering for its atlas."""

LONGEST_PATH = 107
"""Bytes of a Unix socket's path."""

MOST_LINE = 1 << 20
"""Bytes of one line of an answer."""


def socket_path(atlas: Path | str) -> Path:
    """Name the socket of the atlas's model process. Raises AtlasError if its folder is not ours alone: whoever may write there can be who answers."""
    name = os.fspath(atlas)
    identity = name if "://" in name else str(Path(atlas).resolve())
    path = private_folder() / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise AtlasError(f"{path} is longer than a socket's path may be ({LONGEST_PATH} bytes): set XDG_RUNTIME_DIR or TMPDIR to a shorter folder")
    return path


def private_folder() -> Path:
    """Make a folder for sockets that nobody else can enter, if there is none."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    parent = Path(runtime) if runtime and Path(runtime).is_dir() else Path(tempfile.gettempdir())
    folder = parent / f"activation-atlas-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise AtlasError(
            f"{folder} is to hold the socket of the model process, and cannot: {error.strerror}; set XDG_RUNTIME_DIR to a folder of yours"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise AtlasError(f"{folder} is to hold the socket of the model process, and others can enter it; remove it, or set XDG_RUNTIME_DIR to one of yours")
    return folder


ADDRESS, TOKEN = "ATLAS_LIVE", "ATLAS_LIVE_TOKEN"
"""Environment variables of who asks a process on a port: HOST:PORT, and its token."""


class UnixConnection(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connecting.settimeout(self.timeout)
            connecting.connect(str(self.path))
        except OSError:
            connecting.close()
            raise
        self.sock = connecting
