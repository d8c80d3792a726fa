"""Checks of requests: the server answers only a browser that calls it by one of its own names, from one of its own pages.

Otherwise anybody's page could read an atlas through a reader's browser: under a name whose owner lets it point to this server (DNS rebinding), by a websocket
to this server, or by showing one of our pages in a frame and catching clicks (clickjacking).
"""

import ipaddress
import re
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.listening import is_loopback

LOOPBACKS = ("127.0.0.1", "localhost", "::1")

AUTHORITY = re.compile(r"(?:\[([\da-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.IGNORECASE | re.ASCII)
"""Form of a Host header: an address in brackets, or a name; then an optional port."""

UNFRAMED = {"Content-Security-Policy": "frame-ancestors 'self'", "X-Frame-Options": "SAMEORIGIN"}

UPLOADS = "/_stcore/upload_file"
"""Path where Streamlit accepts files, which it would keep in memory; no page of ours asks for one."""


def own_hosts(address: str, added: Iterable[str]) -> frozenset[str]:
    """List the names of a server that listens at `address`, including those in `added`."""
    machine = () if is_loopback(address) else (socket.gethostname(),)
    return frozenset(map(normalise_host, (*LOOPBACKS, address, *machine, *added)))


def normalise_host(host: str) -> str:
    """Write a name or address in the form in which hosts are compared."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host.lower().removesuffix(".")
    return str(getattr(found, "ipv4_mapped", None) or found)


def refusal(headers: Headers, hosts: frozenset[str]) -> str | None:
    """Explain in one line why a request is refused; None if it is answered.

    Ports are not compared with the server's own, because a tunnel gives the server another port.
    """
    host, origin = ", ".join(headers.getlist("host")), headers.get("origin")
    found = AUTHORITY.fullmatch(host)
    if found is None or normalise_host(found[1] or found[2]) not in hosts:
        names = ", ".join(sorted(hosts))
        return f"these pages are not served as {host!r}, but as {names}; to serve them under another name, start them with `atlas ui --host NAME`"
    if origin is not None and authority(origin) != host:
        return f"a page of {origin!r} may not send requests to {host}; a proxy in front of these pages must pass on the Host header unchanged"
    return None


def authority(origin: str) -> str | None:
    """Read host and port of an Origin header; None if it is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


class HostGuard:
    """Middleware that refuses uploads and requests with a foreign Host or Origin, and forbids other sites to frame answers.

    It covers requests of every path, and websockets.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)

        async def send_unframed(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                MutableHeaders(scope=message).update(UNFRAMED)
            await send(message)

        if UPLOADS in scope["path"]:
            return await PlainTextResponse("these pages take no files\n", 403)(scope, receive, send_unframed)
        # the address that this connection came to: where all are listened to, it is one of many
        fault = refusal(Headers(scope=scope), self.hosts | {normalise_host(scope["server"][0])})
        answer = self.app if fault is None else PlainTextResponse(f"{fault}\n", 403)
        return await answer(scope, receive, send_unframed)
