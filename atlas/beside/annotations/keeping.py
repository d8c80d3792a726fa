"""Annotations as rows: written to the file beside the atlas, and read back."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import duckdb
import polars as pl

from atlas.beside.annotations.subjects import Address, Annotation, Pattern
from atlas.cursors import fetch_rows
from schema.open.change import insert_rows, next_id

MINER = "miner"
"""The annotator of the patterns that the program proposes; no person may have this name."""

OF_ANNOTATOR = """
SELECT a.subject, a.corpus_id, a.layer, a.item, a.annotation_id
FROM annotations.annotation AS a
WHERE lower(a.annotator) = lower($annotator)
"""
PATTERNS = """
SELECT p.annotation_id, p.kind, p.description, list(m.rank ORDER BY m.rank)
FROM annotations.pattern AS p
INNER JOIN annotations.pattern_match AS m ON p.pattern_id = m.pattern_id
GROUP BY p.annotation_id, p.pattern_id, p.kind, p.description
ORDER BY p.pattern_id
"""


def find_annotation_ids(con: duckdb.DuckDBPyConnection, annotator: str) -> dict[Address, int]:
    """Map each address that `annotator` looked at to its annotation_id.

    `con` must have the atlas open: the file alone may also have annotations of these addresses in other models and texts.
    """
    return {Address(*row[:4]): row[4] for row in fetch_rows(con, OF_ANNOTATOR, {"annotator": annotator})}


def patterns_of(con: duckdb.DuckDBPyConnection, annotator: str) -> dict[Address, tuple[Pattern, ...]]:
    """Map each address that `annotator` looked at to the patterns found there; an empty tuple if none was found."""
    by_id: dict[int, list[Pattern]] = {}
    for annotation_id, kind, description, ranks in fetch_rows(con, PATTERNS):
        by_id.setdefault(annotation_id, []).append(Pattern(kind, description, tuple(ranks)))
    return {address: tuple(by_id.get(i, ())) for address, i in find_annotation_ids(con, annotator).items()}


EXPLAINED = """
SELECT i.annotation_id, i.rank, coalesce(i.position_id, i.token_id)
FROM annotations.annotation_item AS i
INNER JOIN annotations.annotation AS a ON i.annotation_id = a.annotation_id
WHERE lower(a.annotator) = lower($annotator)
"""


def ids_shown(con: duckdb.DuckDBPyConnection, annotator: str) -> dict[Address, dict[int, int]]:
    """Map each address that `annotator` looked at to the items shown there: rank → ShownItem.id."""
    by_id: dict[int, dict[int, int]] = {}
    for annotation_id, rank, item_id in fetch_rows(con, EXPLAINED, {"annotator": annotator}):
        by_id.setdefault(annotation_id, {})[rank] = item_id
    return {address: by_id.get(i, {}) for address, i in find_annotation_ids(con, annotator).items()}


def remove(con: duckdb.DuckDBPyConnection, annotation_ids: Iterable[int]) -> None:
    """Delete annotations with their items, patterns and pattern matches."""
    ids = ", ".join(str(i) for i in annotation_ids) or "NULL"
    con.execute(f"DELETE FROM annotations.pattern_match WHERE pattern_id IN (SELECT pattern_id FROM annotations.pattern WHERE annotation_id IN ({ids}))")
    for table in ("pattern", "annotation_item", "annotation"):
        con.execute(f"DELETE FROM annotations.{table} WHERE annotation_id IN ({ids})")


def insert(con: duckdb.DuckDBPyConnection, annotations: Iterable[Annotation], annotator: str, weights_sha256: str) -> None:
    """Add annotations, with ids above those of existing ones. `con` is the writer of change_companion_with_atlas."""
    annotation_id, pattern_id = (next_id(con, "annotations", column) for column in ("annotation_id", "pattern_id"))
    rows = as_rows(annotations, annotator, weights_sha256, annotation_id, pattern_id)
    for table, lines in rows.items():
        if lines:
            insert_rows(con, f"annotations.{table}", pl.DataFrame(lines, infer_schema_length=None).to_arrow())


def as_rows(
    annotations: Iterable[Annotation], annotator: str, weights_sha256: str, annotation_id: int, pattern_id: int
) -> Mapping[str, list[dict[str, object]]]:
    """Build the rows of each table from annotations; each row is a dict by column."""
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in ("annotation", "annotation_item", "pattern", "pattern_match")}
    now = datetime.now(UTC)
    for own_id, annotation in enumerate(annotations, start=annotation_id):
        a = annotation.address
        look = {"subject": a.subject, "corpus_id": a.corpus_id, "layer": a.layer, "item": a.item, "n_items": len(annotation.items)}
        by = {"annotator": annotator, "is_proposed": annotator == MINER, "weights_sha256": weights_sha256, "created_at": now}
        rows["annotation"].append({"annotation_id": own_id, **look, **by})
        for item in annotation.items:
            what = {"position_id": item.position_id, "token_id": item.token_id, "is_stop_word": item.is_stop_word}
            rows["annotation_item"].append({"annotation_id": own_id, "rank": item.rank, **what, "text_before": item.text_before, "token": item.token})
        for pattern in annotation.patterns:
            rows["pattern"].append({"pattern_id": pattern_id, "annotation_id": own_id, "kind": pattern.kind, "description": pattern.description})
            rows["pattern_match"] += [{"pattern_id": pattern_id, "rank": rank} for rank in pattern.ranks]
            pattern_id += 1
    return rows
