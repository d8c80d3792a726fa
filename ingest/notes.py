"""Notes that an ingest makes before it computes: settings that its user may not have meant, and their consequences."""

import json

import duckdb

from ingest.text.corpora.readers import MAX_TEXT_CHARS
from ingest.text.survey import Survey


def cut_texts(seen: Survey) -> str | None:
    """Note that long text files became several documents; None if none did."""
    if not seen.n_pieces:
        return None
    return (
        f"note: {seen.n_pieces:,} of the {seen.n_documents:,} documents are pieces of text files longer than {MAX_TEXT_CHARS:,} characters, "
        "cut at line ends; no context spans two pieces"
    )


def columns_left_out(seen: Survey) -> str | None:
    """Note which columns of the source are left out of the documents' metadata; None if no column is left out."""
    if not seen.left_out:
        return None
    return f"note: columns left out of the documents' metadata, since JSON cannot represent their values: {', '.join(seen.left_out)}"


def another_corpus(con: duckdb.DuckDBPyConnection, corpus_id: int, name: str, split: str, source: dict[str, object]) -> str | None:
    """Note that the atlas already has the same text, cut in another way, and gets it a second time; None otherwise."""
    found = con.execute("SELECT corpus_id, source FROM corpus WHERE name = ? AND split = ? ORDER BY corpus_id", [name, split]).fetchall()
    others = [(other, json.loads(stored)) for other, stored in found]
    if not others or corpus_id in dict(others):
        return None
    differs = "; ".join(f"corpus {other} has {', '.join(f'{key} {stored.get(key)}' for key in differing_settings(stored, source))}" for other, stored in others)
    asked = ", ".join(f"{key} {source.get(key)}" for key in sorted({key for _, stored in others for key in differing_settings(stored, source)}))
    return (
        f"note: {name} is in this atlas already, and is added as another corpus, {corpus_id}, with {asked}: {differs}. "
        "Questions about one corpus need its corpus_id; other questions use all corpora unless they are given one"
    )


def differing_settings(one: dict[str, object], other: dict[str, object]) -> list[str]:
    """List the settings that two sources do not share."""
    return sorted(key for key in one | other if one.get(key) != other.get(key))
