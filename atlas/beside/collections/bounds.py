"""Limits on a file of collections. Changes obey them, and reading checks them again, because a file that somebody else sent may hold anything."""

import duckdb

from atlas.cursors import fetch_rows
from schema.errors import AtlasError

MOST_COLLECTIONS, MOST_MEMBERS, MOST_IN_FILE = 1_000, 100_000, 1_000_000
"""Maximum numbers of collections, of members of one collection, and of members of all collections together."""

MOST_BYTES = 1 << 28
"""Maximum bytes of the texts and notes of a collection's members; also of the names and notes of all collections."""

OF_FILE = """
SELECT count(*), coalesce(sum(strlen(c.name) + strlen(c.note) + strlen(c.made_by)), 0), (SELECT count(*) FROM collections.collection_member)
FROM collections.collection AS c
"""
OF_ONE = """
SELECT count(*), coalesce(sum(strlen(m.text) + strlen(m.note) + strlen(m.added_by) + strlen(m.weights_sha256)), 0)
FROM collections.collection_member AS m
INNER JOIN collections.collection AS c ON m.collection_id = c.collection_id
WHERE lower(c.name) = lower($name)
"""


def require_few(con: duckdb.DuckDBPyConnection) -> None:
    """Raise AtlasError if the file has more collections, more members in total, or more bytes of names and notes than it may."""
    ((n, n_bytes, n_members),) = fetch_rows(con, OF_FILE)
    require_at_most(n, MOST_COLLECTIONS, "collections")
    require_at_most(n_members, MOST_IN_FILE, "members in all collections together")
    require_at_most(n_bytes, MOST_BYTES, "bytes of names and notes")


def require_small(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Raise AtlasError if a collection, or the whole file, is larger than it may be. A collection that does not exist counts as small."""
    require_few(con)
    ((n, n_bytes),) = fetch_rows(con, OF_ONE, {"name": name})
    require_at_most(n, MOST_MEMBERS, f"members in {name[:80]!r}")
    require_at_most(n_bytes, MOST_BYTES, f"bytes of texts and notes in {name[:80]!r}")


def require_at_most(n: int, most: int, what: str) -> None:
    if n > most:
        raise AtlasError(f"the file of collections has {n:,} {what}, and at most {most:,} are read: query the file in SQL to see all of them")
