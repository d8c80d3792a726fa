"""Facts about an atlas that its user may not know: texts in pieces, one text in several corpora, files beside it that are left out, an unfinished ingest."""

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
"""Documents of each corpus that are pieces of a text file: ingest names the pieces of a file that is too long for one document FILE#0, FILE#1, …"""

LONGEST = 100
"""Maximum characters that are quoted of a corpus's source that is not JSON settings."""

MOST_SAID = 10
"""Maximum number of corpora with a note that they are the same text as another corpus."""


def work_folder(path: Path) -> Path:
    """Return the folder in which an ingest into the atlas works; the ingest removes it when it is done."""
    return path.with_name(path.name + ".work")


def describe_unfinished_ingest(path: Path) -> str | None:
    """Describe an unfinished ingest into the atlas at `path`, which need not exist yet; None if there is none."""
    if not work_folder(path).is_dir():
        return None
    return f"an ingest is running or was interrupted ({work_folder(path)}): run its command again to continue it"


def notes(con: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    found = [f"{n:,} documents of corpus {corpus} are pieces of longer text files" for corpus, n in fetch_rows(con, PIECES)]
    return [*found, *describe_duplicate_corpora(con), *list_left_out(con, path), *filter(None, [describe_unfinished_ingest(path)])]


def describe_duplicate_corpora(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield a note on each of the first MOST_SAID corpora that are the same text as another, cut in another way, and one note on any further ones."""
    firsts: dict[tuple[str, str], tuple[int, dict[str, object]]] = {}
    corpora = fetch_rows(con, "SELECT c.corpus_id, c.name, c.split, c.source FROM corpus AS c ORDER BY c.corpus_id")
    said = 0
    for corpus_id, name, split, source in corpora:
        b = settings_of(source)
        first, a = firsts.setdefault((name, split), (corpus_id, b))
        if first != corpus_id:
            said += 1
            if said > MOST_SAID:
                yield "further corpora have the same text as others, cut in other ways"
                return
            differs = visible_line(", ".join(f"{key} {a.get(key)} and {b.get(key)}" for key in sorted(a | b) if a.get(key) != b.get(key)))
            yield f"corpora {first} and {corpus_id} are {visible_line(name)}, cut in two ways ({differs}): questions read both unless one of them is given"


def settings_of(source: object) -> dict[str, object]:
    """Read the settings by which a corpus was cut from their JSON; return the beginning of any other text as `source`."""
    try:
        found = json.loads(str(source))
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"source": str(source)[:LONGEST]}
