"""What the pages ask: one open atlas for each snapshot, answers kept while it is shown."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import streamlit as st

from atlas.api import Atlas
from atlas.arguments import bind
from atlas.export.provenance import provenance
from atlas.inventory import RUNS, Status
from atlas.questions import question
from atlas.statement import statement
from schema.errors import AtlasError
from ui.snapshot import Replaced, Snapshot, latest

DIGITS = 8
"""Of the hash of weights that links carry."""


@dataclass(frozen=True)
class Answer:
    """Rows with all that goes with them when they are taken away.

    `sql` gives the same rows in any DuckDB; `columns` says what each holds and its unit; `arguments` are the question's, by name.
    `whole` gives the answer that this is one page of: files hold all of it.
    """

    title: str
    frame: pl.DataFrame
    sql: str
    columns: dict[str, str] = field(default_factory=dict)
    question: str | None = None
    arguments: dict[str, object] = field(default_factory=dict)
    whole: "Callable[[], Answer] | None" = None

    @property
    def filed(self) -> "Answer":
        """What files hold."""
        return self.whole() if self.whole else self

    @property
    def name(self) -> str:
        """For files."""
        return self.question or "query"


def shown() -> Snapshot:
    """The snapshot that this visitor looks at: the one that was there when the visit began, with the latest annotations."""
    if "snapshot" not in st.session_state:
        st.session_state["snapshot"] = latest_opened()
    now, current = latest(os.environ["ATLAS_DB"]), st.session_state["snapshot"]
    if current.atlas == now.atlas:
        current = st.session_state["snapshot"] = now
    return current


def latest_opened() -> Snapshot:
    """The latest snapshot that can be opened: the next, where one was published at that moment."""
    while True:
        snapshot = latest(os.environ["ATLAS_DB"])
        try:
            opened(snapshot)
        except Replaced:
            continue
        return snapshot


def newer() -> Snapshot | None:
    """What has been published since, if anything."""
    now, current = latest(os.environ["ATLAS_DB"]), shown()
    return now if now.atlas != current.atlas else None


def show(snapshot: Snapshot) -> None:
    st.session_state["snapshot"] = snapshot


@st.cache_resource(max_entries=4, on_release=lambda a: a.close(), show_spinner=False)
def opened(snapshot: Snapshot) -> Atlas:
    """The atlas of a snapshot. Raises Replaced if another has taken its place meanwhile."""
    a = Atlas(snapshot.path)
    try:
        check_current(snapshot)
    except AtlasError:
        a.close()
        raise
    return a


def check_current(snapshot: Snapshot) -> None:
    """Raise Replaced if a file opened by this path may be another than the snapshot."""
    if latest(snapshot.path).atlas != snapshot.atlas:
        raise Replaced("this snapshot has been replaced by a newer one: show that, or load the page anew")


def atlas() -> Atlas:
    return opened(shown())


@st.cache_data(max_entries=128, show_spinner=False)
def rows(snapshot: Snapshot, name: str, arguments: tuple[tuple[str, object], ...]) -> pl.DataFrame:
    return opened(snapshot).ask(name, **dict(arguments))


def ask(name: str, **arguments: object) -> Answer:
    """A question's answer. Raises AtlasError for arguments that this atlas does not have."""
    q = question(name)
    bound = bind(q, (), arguments)
    frame = rows(shown(), name, tuple(bound.items()))
    return Answer(q.sentence, frame, statement(q, bound), q.columns, name, bound)


@st.cache_data(max_entries=4, show_spinner=False)
def status_of(snapshot: Snapshot) -> Status:
    return opened(snapshot).status()


def status() -> Status:
    """What is in the atlas."""
    return status_of(shown())


def model() -> dict[str, Any]:
    """The row of table model. Raises AtlasError if the atlas is empty."""
    rows = status().model.to_dicts()
    if not rows:
        raise AtlasError("this atlas is empty: it has no model yet. `atlas ingest` fills it.")
    return rows[0]


def identity() -> str | None:
    """The first digits of the hash of the model's weights, which links carry; None without a model."""
    rows = status().model.to_dicts()
    return str(rows[0]["weights_sha256"])[:DIGITS] if rows else None


def model_line() -> str:
    """Which model the atlas is of: its name and revision; '' without one."""
    return " @ ".join(str(part) for row in status().model.to_dicts() for part in (row["name"], row["revision"]))


def model_name() -> str:
    """'' without a model."""
    return "".join(str(row["name"]) for row in status().model.to_dicts())


def file_name() -> str:
    return Path(shown().path).name


@st.cache_data(max_entries=4, show_spinner=False)
def dictionary_of(snapshot: Snapshot) -> pl.DataFrame:
    return opened(snapshot).schema()


def dictionary() -> pl.DataFrame:
    """One row per column of every table and view."""
    return dictionary_of(shown())


def runs() -> Answer:
    """Every run of ingest."""
    return Answer("Every run of ingest.", status().runs, RUNS.strip())


def source(answer: Answer) -> dict[str, object]:
    """Where an answer comes from, as exports keep it."""
    a = atlas()
    return provenance(a.con, a.path, sql=answer.sql, n_rows=answer.frame.height, question=answer.question, parameters=answer.arguments)
