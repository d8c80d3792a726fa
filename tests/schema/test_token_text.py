"""Tokens of earlier releases that show what is no whole character as U+FFFD: the next ingest spells their bytes out, as it does those of a new file."""

import duckdb
import pytest

from schema.migrations import Migration, migrations

TOKENS = [
    (b"\xf0\x9f", "\ufffd", "⟨F0 9F⟩"),
    (b" \xf0\x9f", " \ufffd", " ⟨F0 9F⟩"),
    (b"\x98\x8a!", "\ufffd\ufffd!", "⟨98 8A⟩!"),
    (b"a\x80b\x80c", "a\ufffdb\ufffdc", "a⟨80 62 80⟩c"),
    (b"\xef\xbf\xbd", "\ufffd", "\ufffd"),
    (b"abc", "abc", "abc"),
    (None, "[unused 6]", "[unused 6]"),
]
"""Bytes, text of earlier releases, text of this."""


@pytest.fixture
def migration() -> Migration:
    return next(found for found in migrations() if found.name == "002_token_text")


def test_bytes_of_broken_characters_are_spelt_out_once(migration: Migration) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE token (token_id INTEGER PRIMARY KEY, text VARCHAR, bytes BLOB)")
    con.executemany("INSERT INTO token VALUES (?, ?, ?)", [(i, text, raw) for i, (raw, text, _) in enumerate(TOKENS)])
    assert con.execute(migration.due).fetchall()
    con.execute(migration.sql)
    assert con.execute("SELECT text FROM token ORDER BY token_id").fetchall() == [(text,) for _, _, text in TOKENS]
    assert not con.execute(migration.due).fetchall()
