"""Data of the pages: one open atlas for each snapshot, with its answers cached."""

import json
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import streamlit as st

from atlas.answers import read_answer
from atlas.api import Atlas
from atlas.arguments import bind
from atlas.beside.collections.bounds import require_few
from atlas.commands import complete
from atlas.export.provenance import provenance
from atlas.export.visible import visible_text
from atlas.inventory import RUNS, Status
from atlas.questions import question
from atlas.statement import statement
from schema.errors import AtlasError
from ui.snapshot import MOST_SERVED, Snapshot, SnapshotReplaced, latest

DIGITS = 8
"""Digits of the hash of weights that links carry."""


LONGEST_SAID = 80
"""Maximum characters of an argument in a caption."""


@dataclass(frozen=True)
class Answer:
    """Rows of an answer, with all that is exported with them.

    `sql`: gives the same rows in any DuckDB. `columns`: column → what it holds, with its unit. `arguments`: the question's arguments, by name. `whole`: gives
    the full answer if this is one page of it, since files hold all of it.
    """

    title: str
    frame: pl.DataFrame
    sql: str
    columns: dict[str, str] = field(default_factory=dict)
    question: str | None = None
    arguments: dict[str, object] = field(default_factory=dict)
    whole: "Callable[[], Answer] | None" = None

    @property
    def full_answer(self) -> "Answer":
        """The answer that files hold: the full answer if this is one page of it."""
        return self.whole() if self.whole else self

    @property
    def name(self) -> str:
        """Name of the answer in files, after its question."""
        return self.question or "query"

    @property
    def caption(self) -> str:
        """Title with the arguments of the question, since the figures of two neurons have the same title; the arguments n and width are left out.

        Text that was typed or comes from a link shows every character, up to LONGEST_SAID.
        """
        asked = {
            name: visible_text(str(v)[: LONGEST_SAID + 1]) for name, v in self.arguments.items() if isinstance(v, int | str) and name not in {"n", "width"}
        }
        said = ", ".join(f"{name.replace('_', ' ')} {v if len(v) <= LONGEST_SAID else f'{v[:LONGEST_SAID]}…'}" for name, v in asked.items())
        return f"{self.title.rstrip('.')} ({said}){'.' * self.title.endswith('.')}" if said else self.title


def paths() -> list[str]:
    """List the paths of the atlases that this server shows. The first is shown if an address names no atlas."""
    first = os.environ["ATLAS_DB"]
    others = json.loads(os.environ.get("ATLAS_SERVED", "[]"))
    return others if first in others else [first]


def paths_by_name() -> dict[str, str]:
    """Map the name of each atlas in links to its path.

    The name is the first digits of the weights' hash, followed by the name of the file if another atlas has the same weights. Atlases that cannot be opened, or
    have no model, are left out.
    """
    found: dict[str, str] = {}
    for path in paths():
        try:
            weights = identity_of(latest(path))
        except AtlasError:
            continue
        if weights:
            stem = f"{weights}.{Path(path).stem}"
            found[next(name for name in (weights, stem, *(f"{stem}.{i}" for i in range(2, len(paths()) + 1))) if name not in found)] = path
    return found


def path_from_address() -> str:
    """Find the path of the atlas that the address names; the first path if it names none that is served here."""
    every = paths()
    return paths_by_name().get(st.query_params.get("of", ""), every[0]) if len(every) > 1 else every[0]


def current_snapshot() -> Snapshot:
    """Find the snapshot that this visitor sees: the atlas as it was when the visit began, with the latest files beside it."""
    path, seen = path_from_address(), st.session_state.setdefault("snapshots", {})
    if path not in seen:
        seen[path] = latest_opened(path)
    now = latest(path)
    if seen[path].atlas == now.atlas:
        seen[path] = now
    return seen[path]


def latest_opened(path: str) -> Snapshot:
    """Find the latest snapshot that can be opened. If it is replaced while it is being opened, try the next."""
    while True:
        snapshot = latest(path)
        try:
            open_atlas(snapshot)
        except SnapshotReplaced:
            continue
        return snapshot


def newer() -> Snapshot | None:
    """Find the snapshot published since the one shown; None if there is none."""
    now, current = latest(path_from_address()), current_snapshot()
    return now if now.atlas != current.atlas else None


def show_snapshot(snapshot: Snapshot) -> None:
    st.session_state["snapshots"][snapshot.path] = snapshot


# those that are served, and a few that were replaced: one that has no place here is closed under whoever looks at it
@st.cache_resource(max_entries=MOST_SERVED + 4, on_release=lambda a: a.close(), show_spinner=False)
def open_atlas(snapshot: Snapshot) -> Atlas:
    """Open the atlas of a snapshot. Raises SnapshotReplaced if a newer snapshot has replaced it."""
    a = Atlas(snapshot.path)
    try:
        check_current(snapshot)
    except AtlasError:
        a.close()
        raise
    return a


def check_current(snapshot: Snapshot) -> None:
    """Raise SnapshotReplaced if the file that was opened at this path may not be that of the snapshot."""
    if latest(snapshot.path).atlas != snapshot.atlas:
        raise SnapshotReplaced("this snapshot has been replaced by a newer one: show the newer one, or reload the page")


def atlas() -> Atlas:
    return open_atlas(current_snapshot())


@st.cache_data(max_entries=128, show_spinner=False)
def rows(snapshot: Snapshot, name: str, arguments: tuple[tuple[str, object], ...]) -> pl.DataFrame:
    return read_answer(open_atlas(snapshot).con, name, **dict(arguments))


def ask(name: str, **arguments: object) -> Answer:
    """Answer a question. Raises AtlasError for arguments that this atlas does not have."""
    q = question(name)
    bound = bind(q, (), arguments)
    frame = rows(current_snapshot(), name, tuple(bound.items()))
    return Answer(q.sentence, frame, statement(q, bound), q.columns, name, bound)


@st.cache_data(max_entries=16, show_spinner=False)
def status_of(snapshot: Snapshot) -> Status:
    return open_atlas(snapshot).status()


def status() -> Status:
    """Read the inventory of the atlas."""
    return status_of(current_snapshot())


def model() -> dict[str, Any]:
    """Read the row of table model. Raises AtlasError if the atlas is empty."""
    rows = status().model.to_dicts()
    if not rows:
        raise AtlasError("this atlas is empty: it has no model yet. `atlas ingest` fills it.")
    return rows[0]


@st.cache_resource(max_entries=16, show_spinner=False)
def identity_of(snapshot: Snapshot) -> str | None:
    """Read the first digits of the hash of the weights of a snapshot's model; None without a model.

    They are cached by themselves, because every link needs them, and the status would be copied each time.
    """
    rows = status_of(snapshot).model.to_dicts()
    return str(rows[0]["weights_sha256"])[:DIGITS] if rows else None


def identity() -> str | None:
    """Return the name that links use for the atlas shown, as in `paths_by_name`; None without a model."""
    own = identity_of(current_snapshot())
    named = {path: name for name, path in paths_by_name().items()} if len(paths()) > 1 else {}
    return named.get(current_snapshot().path, own)


def model_line() -> str:
    """Return the name and revision of the atlas's model; '' without a model."""
    return " @ ".join(str(part) for row in status().model.to_dicts() for part in (row["name"], row["revision"]))


def model_name() -> str:
    """Return the name of the atlas's model; '' without a model."""
    return "".join(str(row["name"]) for row in status().model.to_dicts())


def file_name() -> str:
    return Path(current_snapshot().path).name


def of_this_atlas(command: str) -> str:
    """Complete a command with the file (for NAME.duckdb), the model and the text of the atlas shown."""
    return complete(atlas().con, command.replace("NAME.duckdb", shlex.quote(file_name())))


@st.cache_data(max_entries=4, show_spinner=False)
def dictionary_of(snapshot: Snapshot) -> pl.DataFrame:
    return open_atlas(snapshot).schema()


def dictionary() -> pl.DataFrame:
    """List every column of every table and view, one per row."""
    return dictionary_of(current_snapshot())


def runs() -> Answer:
    """List every run of ingest."""
    return Answer("Every run of ingest.", status().runs, RUNS.strip())


def collections() -> Answer:
    """List all collections. Raises AtlasError if there are more than a file may hold, since the file may be a stranger's."""
    require_few(atlas().con)
    return ask("collections")


def source(answer: Answer) -> dict[str, object]:
    """Describe where an answer comes from, as exports record it."""
    a = atlas()
    return provenance(a.con, a.path, sql=answer.sql, n_rows=answer.frame.height, question=answer.question, parameters=answer.arguments)
