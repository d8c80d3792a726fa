"""Runs of live prompts, few at a time and within limits, and which prompts may run: a link alone starts no run."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from uuid import uuid4

import polars as pl
import streamlit as st

from atlas.api import Atlas
from atlas.live import LiveTrace
from schema.errors import AtlasError
from schema.live import ADDRESS
from ui import data
from ui.prediction.address import View, short_form
from ui.snapshot import Snapshot

MOST_KEPT = 4
"""Maximum number of runs that a server keeps for its visitors."""

MOST_ANSWERS, MOST_ALLOWED = 64, 16
"""Maximum number of cached answers of a run, and of prompts that links may run for a visitor."""

PATIENCE = 300.0
"""Maximum seconds that a visitor waits, the queue and the loading of weights included."""

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Key:
    """Identity of a run."""

    snapshot: Snapshot
    prompt: str
    off: tuple[str, ...]
    index: int


class Run:
    """Tables of a prompt beside those of an atlas, read by one visitor at a time. index: number of the token in question, from 0."""

    def __init__(self, atlas: Atlas, trace: LiveTrace, index: int) -> None:
        self.atlas, self.trace, self.index = atlas, trace, index
        self.lock, self.answers = threading.Lock(), OrderedDict[str, pl.DataFrame]()

    def read_rows(self, what: str, *args: object, **arguments: object) -> pl.DataFrame:
        """Read rows from the trace's member `what`: positions, compare, leading_tokens, or ask, which answers a question."""
        key = repr((what, args, sorted(arguments.items())))
        with self.lock:
            if key not in self.answers:
                told = getattr(self.trace, what)
                self.answers[key] = told(*args, **arguments) if callable(told) else told
                if len(self.answers) > MOST_ANSWERS:
                    self.answers.popitem(last=False)
            return self.answers[key]


class RunCache:
    """Cache of the last few runs. A run dropped from it is closed once the last visitor who is looking at it has finished."""

    def __init__(self) -> None:
        self.runs, self.lock = OrderedDict[Key, Run](), threading.Lock()

    def get(self, key: Key, atlas: Atlas) -> Run | None:
        """Get a run; None if there is none, or if the atlas has been closed and reopened since, which closed the run's cursors too."""
        with self.lock:
            if key in self.runs and self.runs[key].atlas is not atlas:
                del self.runs[key]
            if key in self.runs:
                self.runs.move_to_end(key)
            return self.runs.get(key)

    def put(self, key: Key, run: Run) -> None:
        with self.lock:
            self.runs[key] = run
            while len(self.runs) > MOST_KEPT:
                self.runs.popitem(last=False)


@st.cache_resource
def run_cache() -> RunCache:
    return RunCache()


def key_of(view: View) -> Key:
    return Key(data.current_snapshot(), view.prompt or "", view.off, view.index)


def allow(prompt: str) -> None:
    """Allow a prompt to run, since the visitor has pressed Run. For the rest of the visit, links may run it too, with their switches."""
    allowed = [known for known in st.session_state.get("prompts_allowed", []) if known != prompt]
    st.session_state.update(prompts_allowed=[*allowed, prompt][-MOST_ALLOWED:], prompt_stopped=None)


def stop(key: Key, fault: str | None = None) -> None:
    """Stop a run until Run is pressed again. fault: the reason why it ended, None if the visitor cancelled it."""
    st.session_state["prompt_stopped"] = (key, fault)


def may_run(key: Key) -> bool:
    return key.prompt in st.session_state.get("prompts_allowed", []) and (st.session_state.get("prompt_stopped") or (None,))[0] != key


def fault_of(key: Key) -> str | None:
    stopped, fault = st.session_state.get("prompt_stopped") or (None, None)
    return fault if stopped == key else None


def explain_no_model() -> str | None:
    """Explain why no model can be run here; None if one can."""
    if os.environ.get(ADDRESS) or all(find_spec(name) for name in ("ingest", "torch")):
        return None
    return "A prompt of your own needs the model, and what runs it is not installed on this server:"


def run(key: Key, progress: Progress) -> Run:
    """Run a prompt in the model process, which is started if there is none. Raises AtlasError if the process refuses the prompt, and after PATIENCE seconds."""
    end = time.monotonic() + PATIENCE

    def report_until_timeout(said: dict[str, Any]) -> None:
        if time.monotonic() > end:
            raise AtlasError(f"this took longer than {PATIENCE:g} seconds, and was ended: give a shorter prompt, or ask again")
        progress(said)

    atlas = data.open_atlas(key.snapshot)
    live = atlas.live()
    live.visitor = st.session_state.setdefault("live_visitor", uuid4().hex)
    corpora = data.status().corpora["corpus_id"]
    arms = [[short_form(switch) for switch in key.off]] if key.off else []
    tables = live.answer(
        key.prompt, arms, corpus_id=0 if corpora.is_empty() else int(corpora[0]), apart=key.index, is_narrow=True, progress=report_until_timeout
    )
    n = tables["prompt_token"].num_rows
    trace = LiveTrace(atlas.con, atlas.path, key.prompt, tables)
    # they are DuckDB's now
    trace.tables = {}
    found = Run(atlas, trace, key.index % n)
    run_cache().put(key, found)
    return found
