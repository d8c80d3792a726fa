"""What a file of collections may hold: as much as changes let in, since one that was sent may hold anything."""

import duckdb

from atlas.cursors import fetch_rows
from schema.errors import AtlasError

MOST_COLLECTIONS, MOST_MEMBERS, MOST_IN_FILE = 1_000, 100_000, 1_000_000
"""Collections, members of one, and members of all together."""

MOST_BYTES = 1 << 28
"""Of the texts and notes of a collection's members, and of all names and notes of collections."""

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
    """Raise AtlasError where there are more collections, or members in all of them, than a file may hold."""
    ((n, n_bytes, n_members),) = fetch_rows(con, OF_FILE)
    require_at_most(n, MOST_COLLECTIONS, "collections")
    require_at_most(n_members, MOST_IN_FILE, "members in all collections together")
    require_at_most(n_bytes, MOST_BYTES, "bytes of names and notes")


def require_small(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Raise AtlasError where a collection is larger than one may be. One that there is not is small."""
    require_few(con)
    ((n, n_bytes),) = fetch_rows(con, OF_ONE, {"name": name})
    require_at_most(n, MOST_MEMBERS, f"members in {name[:80]!r}")
    require_at_most(n_bytes, MOST_BYTES, f"bytes of texts and notes in {name[:80]!r}")


def require_at_most(n: int, most: int, what: str) -> None:
    if n > most:
        raise AtlasError(f"the file of collections has {n:,} {what}, and {most:,} is the most that is read: SQL has them all")
