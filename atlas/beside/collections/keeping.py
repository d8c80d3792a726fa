"""Changes of NAME.collections.duckdb, each made as a whole: members are added and removed, collections renamed, described and removed."""

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl

from atlas.beside.collections import COLLECTIONS
from atlas.beside.collections.bounds import MOST_COLLECTIONS, MOST_IN_FILE, MOST_MEMBERS
from atlas.beside.collections.members import Member, texts
from atlas.cursors import fetch_rows
from atlas.model_row import model_weights
from atlas.naming import normalise_name
from schema.errors import AtlasError, what_there_is
from schema.open.change import LARGEST_ID, change_companion, change_companion_with_atlas, insert_rows, next_id

LONGEST_NOTE = 2_000
"""Maximum characters of a note."""

THERE = "SELECT c.collection_id, c.name, c.note FROM collections.collection AS c WHERE lower(c.name) = lower($name)"
MEMBERS = """
SELECT m.kind, m.layer, coalesce(m.neuron, m.head, m.position_id, m.token_id), m.number
FROM collections.collection_member AS m
WHERE m.collection_id = $id
"""


def check_note(note: str) -> str:
    if len(note) > LONGEST_NOTE or any(unicodedata.category(c) in ("Cc", "Cs") and c != "\n" for c in note):
        raise AtlasError(f"a note has at most {LONGEST_NOTE:,} characters and no control characters but line breaks")
    return note.strip()


def add(con: duckdb.DuckDBPyConnection, path: Path, name: str, members: Sequence[Member], *, by: str, note: str = "", member_note: str = "") -> tuple[int, int]:
    """Add members to a collection of the atlas at `path`, which `con` has open; a collection that does not exist is created, with the note.

    Returns how many members are new and how many were there before. Raises AtlasError for members that the atlas does not have, and for too many.
    """
    name, by, note, member_note = normalise_name(name), normalise_name(by, "person"), check_note(note), check_note(member_note)
    wanted = list(dict.fromkeys(members))
    if not wanted:
        raise AtlasError("nothing to add: name neurons, heads, positions or tokens")
    if len(wanted) > MOST_MEMBERS:
        raise member_limit_error(len(wanted))
    shown, sha256 = texts(con, wanted), model_weights(con)
    with change_companion_with_atlas(COLLECTIONS, path) as (writer, own):
        collection_id = find_or_make_collection(writer, name, note, by)
        there = {Member(*row[:3]) for row in fetch_rows(own, MEMBERS, {"id": collection_id})}
        fresh = [m for m in wanted if m not in there]
        of_it = "FROM collections.collection_member WHERE collection_id = $id"
        ((n, last),) = fetch_rows(writer, f"SELECT count(*), coalesce(max(number), -1) {of_it}", {"id": collection_id})
        if n + len(fresh) > MOST_MEMBERS:
            raise member_limit_error(n + len(fresh))
        ((n_in_file,),) = fetch_rows(writer, "SELECT count(*) FROM collections.collection_member")
        if n_in_file + len(fresh) > MOST_IN_FILE:
            raise AtlasError(f"all collections of this atlas may have {MOST_IN_FILE:,} members together, and already have {n_in_file:,}: remove a collection")
        if last + len(fresh) > LARGEST_ID:
            raise AtlasError(
                f"{name} has a member with the number {last:,}, and {len(fresh):,} more would pass the largest possible number: remove that member"
            )
        insert(writer, collection_id, last + 1, [(m, shown[m]) for m in fresh], {"note": member_note, "added_by": by, "weights_sha256": sha256})
    return len(fresh), len(wanted) - len(fresh)


def member_limit_error(n: int) -> AtlasError:
    return AtlasError(f"a collection has at most {MOST_MEMBERS:,} members, and this one would have {n:,}: run the SELECT again when you need so many rows")


def find_or_make_collection(writer: duckdb.DuckDBPyConnection, name: str, note: str, by: str) -> int:
    """Find the id of the collection of that name, or create the collection; `note` is stored if the collection has no note.

    Raises AtlasError if the collection has another note, or if the file holds as many collections as it may.
    """
    found = fetch_rows(writer, THERE, {"name": name})
    if found:
        collection_id, own, former = found[0]
        if note and former and note != former:
            raise AtlasError(f"{own} has a note already: {former[:80]!r}. `atlas collection describe` replaces it")
        if note:
            writer.execute("UPDATE collections.collection SET note = ? WHERE collection_id = ?", [note, collection_id])
        return int(collection_id)
    ((n,),) = fetch_rows(writer, "SELECT count(*) FROM collections.collection")
    if n >= MOST_COLLECTIONS:
        raise AtlasError(f"there are {n:,} collections, and a file holds at most {MOST_COLLECTIONS:,}: remove one, or add to one")
    collection_id = next_id(writer, "collections", "collection_id")
    writer.execute("INSERT INTO collections.collection VALUES (?, ?, ?, ?, ?)", [collection_id, name, note, by, datetime.now(UTC)])
    return collection_id


def insert(writer: duckdb.DuckDBPyConnection, collection_id: int, first: int, members: Iterable[tuple[Member, str]], said: dict[str, str]) -> None:
    columns = ("layer", "neuron", "head", "position_id", "token_id")
    rows = [
        {"number": i, "kind": m.kind, **dict(zip(columns, m.cells, strict=True)), "text": text.replace("\0", "�")} for i, (m, text) in enumerate(members, first)
    ]
    if rows:
        told = [pl.lit(value).alias(name) for name, value in {**said, "added_at": datetime.now(UTC)}.items()]
        frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(told)
        insert_rows(writer, "collections.collection_member", frame.to_arrow(), collection_id=collection_id)


def remove(path: Path, name: str, members: Iterable[Member]) -> int:
    """Remove members from a collection; return how many. Raises AtlasError, with nothing changed, if one is not in the collection as a member of this atlas."""
    with change_companion_with_atlas(COLLECTIONS, path) as (writer, own):
        collection_id = find_collection(writer, name)
        numbers = {Member(*row[:3]): row[3] for row in fetch_rows(own, MEMBERS, {"id": collection_id})}
        wanted = list(dict.fromkeys(members))
        if missing := [m for m in wanted if m not in numbers]:
            raise AtlasError(f"{name} has no {', '.join(map(str, missing[:5]))} of this atlas's model and text")
        chosen = [numbers[m] for m in wanted]
        writer.execute("DELETE FROM collections.collection_member WHERE collection_id = ? AND list_contains(?::INTEGER[], number)", [collection_id, chosen])
    return len(chosen)


def remove_whole(path: Path, name: str) -> int:
    """Remove a collection and return how many members it had. Raises AtlasError if it has members of another model or text."""
    with change_companion_with_atlas(COLLECTIONS, path) as (writer, own):
        collection_id = find_collection(writer, name)
        of_it = "SELECT count(*) FROM collections.collection_member AS m WHERE m.collection_id = $id"
        ((n_all,),), ((n_own,),) = (fetch_rows(con, of_it, {"id": collection_id}) for con in (writer, own))
        if n_all > n_own:
            raise AtlasError(
                f"{name} has {n_all - n_own} members of another model or text, which would be removed too: remove only this atlas's "
                "members, by their addresses; the collection can then be removed with the other atlas"
            )
        n = len(writer.execute("DELETE FROM collections.collection_member WHERE collection_id = ? RETURNING number", [collection_id]).fetchall())
        writer.execute("DELETE FROM collections.collection WHERE collection_id = ?", [collection_id])
    return n


def rename(path: Path, name: str, to: str) -> None:
    """Give a collection another name. Raises AtlasError if another collection has that name."""
    to = normalise_name(to)
    with change_companion(COLLECTIONS, path) as writer:
        collection_id = find_collection(writer, name)
        if any(other != collection_id for other, _, _ in fetch_rows(writer, THERE, {"name": to})):
            raise AtlasError(f"there is a collection {to} already")
        writer.execute("UPDATE collections.collection SET name = ? WHERE collection_id = ?", [to, collection_id])


def describe(path: Path, name: str, note: str) -> None:
    """Replace the note of a collection."""
    note = check_note(note)
    with change_companion(COLLECTIONS, path) as writer:
        writer.execute("UPDATE collections.collection SET note = ? WHERE collection_id = ?", [note, find_collection(writer, name)])


def find_collection(con: duckdb.DuckDBPyConnection, name: object) -> int:
    """Find the id of a collection. Raises AtlasError, with the existing names, if none has that name."""
    found = fetch_rows(con, THERE, {"name": str(name)})
    if not found:
        names = [n for (n,) in fetch_rows(con, "SELECT c.name FROM collections.collection AS c ORDER BY c.name LIMIT 20")]
        raise AtlasError(f"no collection {str(name)[:80]!r}; {what_there_is(', '.join(names))}")
    return int(found[0][0])
