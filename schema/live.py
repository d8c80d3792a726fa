"""Protocol between the model process and its clients: where its socket is, how large requests may be, and how it answers.

A request is one JSON object, and the answer consists of lines of JSON. Each line reports progress except the last, which has either `error` or `tables`
(name → number of bytes). After a line with `tables` come the tables themselves, as Arrow streams in the same order.
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
"""Limit on the bytes of a request."""

MOST_PROMPT_TOKENS = 1024
MOST_NEW_TOKENS = 256
MOST_ARMS = 64

MOST_POSITIONS = 1024
"""Limit on the tokens that are traced at once. The prompt's tokens count again for each arm, and for each separate run that arms take states from: the states
of a token take half a megabyte in a small model. The same limit bounds the mask of a layer with blocked edges, which has a row for each token and is freed
after the layer."""

MOST_FORWARDS = 4096
"""Limit on the number of new tokens of a request times the number of its prompts, which are the prompt itself and one copy for each arm."""

LONGEST = 600.0
"""Seconds that a request may take once it is its turn and the model is loaded."""

QUEUE = 64
"""Limit on the requests that wait while one is answered; each visitor has at most one waiting request."""

MOST_UNTAKEN = 8
"""Limit on the answers that are held in memory while they are sent; beyond it, no new request is accepted."""

TAKEN = 75
"""Exit status of a model process that found another one already serving its atlas."""

LONGEST_PATH = 107
"""Limit on the bytes of a Unix socket's path."""

MOST_LINE = 1 << 20
"""Limit on the bytes of one line of an answer."""


def socket_path(atlas: Path | str) -> Path:
    """Return the path of the socket of the atlas's model process.

    Raises AtlasError if the path is too long, or if other users can enter its folder, where they could answer requests themselves.
    """
    name = os.fspath(atlas)
    identity = name if "://" in name else str(Path(atlas).resolve())
    path = private_folder() / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise AtlasError(f"{path} is longer than a socket's path may be ({LONGEST_PATH} bytes): set XDG_RUNTIME_DIR or TMPDIR to a shorter folder")
    return path


def private_folder() -> Path:
    """Return the folder for sockets, which no other user can enter; make it if it does not exist.

    Raises AtlasError if the folder cannot be made, or if other users can enter it.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    parent = Path(runtime) if runtime and Path(runtime).is_dir() else Path(tempfile.gettempdir())
    folder = parent / f"activation-atlas-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise AtlasError(f"cannot make {folder} for the socket of the model process: {error.strerror}; set XDG_RUNTIME_DIR to a folder of your own") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise AtlasError(
            f"{folder} is for the socket of the model process, but is no folder that you alone can enter; "
            "remove it, or set XDG_RUNTIME_DIR to a folder of your own"
        )
    return folder


ADDRESS, TOKEN = "ATLAS_LIVE", "ATLAS_LIVE_TOKEN"
"""Environment variables of a client that reaches a model process on a port: HOST:PORT, and the process's token."""


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
