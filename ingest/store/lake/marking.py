"""Marking of a lake's place: when the lake is made, or later, if an earlier version made it without a mark."""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from ingest.store.lake.place import MARK, MARKS, OWN, Mark, Place, database, identity, keep_word, known_words, mark_of
from schema.errors import AtlasError
from schema.open.drafts import is_draft
from schema.open.lake import CATALOG, Lake

if TYPE_CHECKING:
    from psycopg import Connection

SHOWN = 3
"""Maximum number of unknown files that an error names."""


def check_place(session: "Connection", lake: Lake) -> None:
    """Raise AtlasError unless the files of a lake may be in its place.

    The place must not be another lake's or within another's, must be the one that the lake's catalogue names, and must be empty for a new lake.
    """
    place, own = Place(lake.data), identity(session)
    if own is None:
        place.refuse_filled()
        return
    ((there,),) = session.execute("SELECT m.value FROM ducklake_metadata AS m WHERE m.key = 'data_path'").fetchall()
    if there.rstrip("/") != lake.data:
        raise AtlasError(
            f"{lake.catalogue} is the catalogue of a lake with its files in {there.rstrip('/')}, not in {lake.data}: give that place, or another database"
        )
    place.refuse_others(own)


def mark_place(session: "Connection", con: duckdb.DuckDBPyConnection, lake: Lake, path: Path, *, claims: bool) -> tuple[str, Mark]:
    """Mark the place of an attached lake; return the lake's identity and the mark. Raises AtlasError if the place may be another lake's.

    claims: whether the user declares that all files there are this lake's.
    """
    place, own = Place(lake.data), identity(session)
    if own is None:
        raise AtlasError(f"{lake.catalogue} was emptied while the lake of {path} was opened: run the command again")
    former = place.read_mark(own) if place.has_mark(own) else None
    here, known = database(session), known_words(session)
    if former is None:
        refuse_unmarked(con, place, path, own, claims=claims)
    elif (former.database != here or former.word not in known) and not claims:
        raise AtlasError(
            f"two catalogues claim the files in {lake.data}: that of {path}, and another, which was the last to write the mark there. This happens when a "
            f"database is copied or moved. Each could remove files that the other needs. If the other is gone, `atlas doctor {path} --claim` marks the place "
            "as this catalogue's"
        )
    mark = Mark(here, secrets.token_hex(16))
    keep_word(session, mark.word, former.word if former else None)
    place.mark(own, lake, mark)
    return own, mark


def refuse_unmarked(con: duckdb.DuckDBPyConnection, place: Place, path: Path, own: str, *, claims: bool) -> None:
    """Raise AtlasError if a place without a mark, or whose mark has no word, may contain files of others."""
    if claims:
        if inner := [name for name in place.files() if MARK.fullmatch(name) and not name.startswith(f"{MARKS}/")]:
            raise AtlasError(f"{place.data} contains the place of another lake, whose mark is {place.data}/{inner[0]}: move that lake out of it first")
        return
    if found := [name for name in strange_files(con, place) if name != mark_of(own) and not is_draft(name, mark_of(own))]:
        shown = ", ".join(found[:SHOWN]) + (", …" if len(found) > SHOWN else "")
        raise AtlasError(
            f"{place.data} has no valid mark, since an earlier version made the lake, and {len(found)} of its files are unknown to the catalogue of "
            f"{path} ({shown}): they may be another lake's, yours, or left by an ingest that was killed. Nothing was changed. Move away the files that are not "
            f"this lake's; then `atlas doctor {path} --claim` marks the place as this lake's"
        )


def unknown_files(con: duckdb.DuckDBPyConnection, place: Place) -> list[str]:
    """List the names of Parquet files in a place that are in no snapshot of its lake. DuckLake lists them, and removes nothing."""
    found = con.execute(f"CALL ducklake_delete_orphaned_files('{CATALOG}', cleanup_all => true, dry_run => true)").fetchall()
    return [name for (path,) in found if (name := place.name(path)) is not None]


def strange_files(con: duckdb.DuckDBPyConnection, place: Place) -> list[str]:
    """List the names of files in a place that are not known to be the lake's: the catalogue knows neither the file nor its shard."""
    files, unseen = place.files(), set(unknown_files(con, place))
    known = {name for name in files if OWN.fullmatch(name) and name.endswith(".parquet")} - unseen
    # a shard's file may be left out where its rows were there already
    shards = {folder_of(name) for name in known if name.startswith("shards/")}
    return [name for name in files if name not in known and not (OWN.fullmatch(name) and folder_of(name) in shards)]


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]
