"""Redirects from former addresses of pages to the present address of the same view, without a step in the browser's history."""

from urllib.parse import parse_qs, urlencode

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

MOVED = {"/neuron": "/component", "/events": "/evidence", "/papers": "/evidence"}
"""Former path → path of the page that has the view."""

SHOWN = {"/papers": "papers", "/events": "events"}
"""Former path → value of `show` in the present address."""


def new_address(path: str, query: str) -> str | None:
    """Find the present address of a view, None if it has not moved. Invalid parameters stay in the address, so that the page can report them."""
    asked = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
    if path == "/neuron" or (path == "/component" and "at" not in asked and {"layer", "neuron"} & set(asked)):
        asked = {"at": f"L{asked.pop('layer', '0')}N{asked.pop('neuron', '0')}", **asked}
    elif path in SHOWN:
        asked = {"show": SHOWN[path], **asked}
    elif path == "/prediction" and "in_layer" in asked:
        asked["open"] = f"L{asked.pop('in_layer')}"
    else:
        return None
    return f"{MOVED.get(path, path)}?{urlencode(asked)}"


class RedirectMiddleware:
    """Middleware that redirects requests for old addresses to the new ones."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        to = new_address(scope["path"].rstrip("/"), scope["query_string"].decode("latin-1")) if scope["type"] == "http" else None
        await (RedirectResponse(to) if to else self.app)(scope, receive, send)
