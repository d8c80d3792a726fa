"""The pages behind their gate: what `atlas ui` becomes."""

import asyncio
import os
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware

from ui.hosts import Gate
from ui.redirects import Moved


@asynccontextmanager
async def window(_: st.App) -> AsyncGenerator[None]:
    """Open one, if that was asked for: Streamlit does it only where it makes the app itself."""
    if not st.get_option("server.headless"):
        address = st.get_option("server.address")
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address, f"[{address}]" if ":" in address else address)
        asyncio.get_running_loop().run_in_executor(None, webbrowser.open, f"http://{shown}:{st.get_option('server.port')}/")
    yield


app = st.App("app.py", middleware=[Middleware(Gate, hosts=frozenset(os.environ["ATLAS_HOSTS"].split())), Middleware(Moved)], lifespan=window)
