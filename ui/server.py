"""Server of the pages, with the middleware in front of them; the process of `atlas ui` becomes this server."""

import asyncio
import os
import pkgutil
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module

import streamlit as st
from starlette.middleware import Middleware

import ui
from ui.hosts import HostGuard
from ui.redirects import RedirectMiddleware

FIRST_USED = ("altair", "narwhals", "pandas", "polars", "pyarrow.pandas_compat", "pyarrow.parquet", "pyarrow.vendored.version")
"""Modules that the pages and Streamlit import when they first need them."""

SCRIPTS = ("ui.app", "ui.app_pages.", "ui.cli", "ui.server")
"""Modules that are run, and not imported by a page."""


def import_pages() -> None:
    """Import the modules of all pages. Visitors are threads, and if two of them begin to import pandas at once, one finds it half initialised."""
    altair, _, _, polars, *_ = map(import_module, FIRST_USED)
    # the first chart has narwhals import its part for polars
    altair.Chart(polars.DataFrame({"x": [0]})).mark_point().encode(x="x").to_dict()
    for module in pkgutil.walk_packages(ui.__path__, "ui."):
        if not module.name.startswith(SCRIPTS):
            import_module(module.name)


@asynccontextmanager
async def prepare(_: st.App) -> AsyncGenerator[None]:
    """Import the modules that pages need before any request is answered, and open a browser window if one was requested.

    Streamlit opens a window only if it makes the app itself.
    """
    import_pages()
    if not st.get_option("server.headless"):
        address = st.get_option("server.address")
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address, f"[{address}]" if ":" in address else address)
        asyncio.get_running_loop().run_in_executor(None, webbrowser.open, f"http://{shown}:{st.get_option('server.port')}/")
    yield


app = st.App("app.py", middleware=[Middleware(HostGuard, hosts=frozenset(os.environ["ATLAS_HOSTS"].split())), Middleware(RedirectMiddleware)], lifespan=prepare)
