"""The model process on a port of this machine alone, for systems without Unix sockets and for a model behind an SSH tunnel. Every request needs the token.

Every user of the machine can reach a port, and so can pages in a browser, under any host name: the token is a secret that they do not have.
"""

import hmac
import os
import secrets
import socket
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from schema.errors import AtlasError
from schema.live import socket_path

LOOPBACK = {"127.0.0.1": socket.AF_INET, "[::1]": socket.AF_INET6}


def open_listener(address: str) -> socket.socket:
    """Listen on HOST:PORT of this machine, and return the socket. Raises AtlasError for any other address, and for a port that is taken."""
    host, _, port = address.rpartition(":")
    if host not in LOOPBACK or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise AtlasError(f"--tcp is {address!r}; it must be 127.0.0.1:PORT or [::1]:PORT, which only this machine can reach")
    listener = socket.socket(LOOPBACK[host], socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), int(port)))
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise AtlasError(f"cannot listen on {address}: {error.strerror}") from error
    return listener


def new_token(atlas: Path) -> tuple[str, Path]:
    """Draw a token of 256 bits, write it to a file that no other user can read, and return the token and the file's path."""
    path, token = socket_path(atlas).with_suffix(".token"), secrets.token_hex(32)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(token)
    return token, path


class TokenGuard:
    """Middleware that passes on only requests with the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.has_token(Headers(scope=scope)):
            await self.app(scope, receive, send)
            return
        message = "the token is missing or wrong: set ATLAS_LIVE_TOKEN to the token that `atlas live --tcp` has written"
        await JSONResponse({"error": "AtlasError", "message": message}, status_code=401)(scope, receive, send)

    def has_token(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        return len(given) == 1 and hmac.compare_digest(given[0].encode(), f"Bearer {self.token}".encode())
