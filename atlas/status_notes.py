"""What somebody who looks at an atlas may not know of it: texts in pieces, one text twice, what lies beside it and is of another, an ingest
that was not finished."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb

from atlas.cursors import fetch_rows
from atlas.export.visible import visible_line
from atlas.left_out import list_left_out

PIECES = """
SELECT d.corpus_id, count(*)
FROM document AS d
WHERE regexp_matches(d.name, '(\\.txt|^stdin)#[0-9]+$', 'i')
GROUP BY d.corpus_id
ORDER BY d.corpus_id
"""
"""Text files that are longer than ingest takes for one document are named FILE#0, FILE#1, …"""

LONGEST = 100
"""Characters that are said of a source which is no settings."""

MOST_SAID = 10
"""Corpora that are said to be a text which another is."""


def work_folder(path: Path) -> Path:
    """Give the folder where an ingest into the atlas works; the ingest removes it when it is done."""
    return path.with_name(path.name + ".work")


def describe_unfinished_ingest(path: Path) -> str | None:
    """Describe an ingest into the atlas at `path`, made or not, that has not come to its end; None if there is none."""
    if not work_folder(path).is_dir():
        return None
    return f"an ingest is running or was interrupted ({work_folder(path)}): the command that made it goes on where it stopped"


def notes(con: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    found = [f"{n:,} documents of corpus {corpus} are pieces of longer text files" for corpus, n in fetch_rows(con, PIECES)]
    return [*found, *describe_duplicate_corpora(con), *list_left_out(con, path), *filter(None, [describe_unfinished_ingest(path)])]


def describe_duplicate_corpora(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield a note on each corpus that is the same text as another, cut in another way: the first MOST_SAID of them."""
    firsts: dict[tuple[str, str], tuple[int, dict[str, object]]] = {}
    corpora = fetch_rows(con, "SELECT c.corpus_id, c.name, c.split, c.source FROM corpus AS c ORDER BY c.corpus_id")
    said = 0
    for corpus_id, name, split, source in corpora:
        b = settings_of(source)
        first, a = firsts.setdefault((name, split), (corpus_id, b))
        if first != corpus_id:
            said += 1
            if said > MOST_SAID:
                yield "further corpora are texts that others are, cut in other ways"
                return
            differs = visible_line(", ".join(f"{key} {a.get(key)} and {b.get(key)}" for key in sorted(a | b) if a.get(key) != b.get(key)))
            yield f"corpora {first} and {corpus_id} are {visible_line(name)}, cut in two ways ({differs}): questions take both unless they are given one"


def settings_of(source: object) -> dict[str, object]:
    """Read how a corpus was cut; a file may say anything there."""
    try:
        found = json.loads(str(source))
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"source": str(source)[:LONGEST]}
