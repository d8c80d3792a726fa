"""Patterns added one at a time, as a form sends them, under the same rules as sheets."""

from pathlib import Path

import duckdb

from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.keeping import find_annotation_ids, insert, patterns_of, remove
from atlas.beside.annotations.steps import add_items_by_id, kept_name
from atlas.beside.annotations.subjects import SUBJECTS, Address, Annotation, Pattern, ShownItem, read_shown_items
from atlas.cursors import fetch_rows
from atlas.model_row import model_weights
from schema.errors import AtlasError, what_there_is
from schema.open.change import change_companion_with_atlas

RANKS = "SELECT i.rank, coalesce(i.position_id, i.token_id) FROM annotations.annotation_item AS i WHERE i.annotation_id = $id ORDER BY i.rank"


def add(con: duckdb.DuckDBPyConnection, path: Path, address: Address, annotator: str, pattern: Pattern | None) -> int:
    """Store a pattern that `annotator` found at one address, besides the annotator's earlier ones. pattern: None if the annotator looked and found nothing.

    `con` has the atlas at `path` open. Returns how many patterns of the annotator the address now has. Raises AtlasError if the atlas lacks the address, if the
    pattern breaks the papers' rules, or if the annotator was shown other texts before.
    """
    annotator = kept_name(con, annotator)
    items = read_shown_items(con, [address]).get(address, ())
    if not items:
        raise AtlasError(f"this atlas has no {address}")
    if pattern is not None:
        check(address, pattern, items)
    with change_companion_with_atlas(ANNOTATIONS, path) as (writer, own):
        former = find_annotation_ids(own, annotator)
        earlier: tuple[Pattern, ...] = ()
        if address in former:
            before = fetch_rows(writer, RANKS, {"id": former[address]})
            every = read_shown_items(con, [address], every=True)[address]
            if not set(before) <= {(item.rank, item.id) for item in every}:
                raise AtlasError(f"{annotator} annotated {address} when this atlas showed other texts: load a sheet with --replace")
            items = add_items_by_id(items, every, (item_id for _, item_id in before))
            earlier = patterns_of(own, annotator)[address]
            remove(writer, [former[address]])
        found = (*earlier, pattern) if pattern else earlier
        insert(writer, [Annotation(address, items, found)], annotator, model_weights(con))
    return len(found)


def check(address: Address, pattern: Pattern, items: tuple[ShownItem, ...]) -> None:
    """Raise AtlasError unless the pattern has a kind that its subject allows and a description, and explains enough of the shown items."""
    subject = SUBJECTS[address.subject]
    things = "texts" if address.subject == "key" else "tokens"
    if pattern.kind not in subject.kinds:
        raise AtlasError(f"no kind {pattern.kind!r} for a {subject.title}; {what_there_is(', '.join(subject.kinds))}")
    if not pattern.description.strip():
        raise AtlasError(f"the pattern of {address} has no description: say what its {things} have in common")
    unknown = sorted(set(pattern.ranks) - {item.rank for item in items})
    if unknown:
        raise AtlasError(f"{address} has no rank {', '.join(map(str, unknown))}: it shows ranks {items[0].rank} to {items[-1].rank}")
    if len(set(pattern.ranks)) < subject.least:
        raise AtlasError(f"a pattern of {address} must explain at least {subject.least} {things}, and this one explains {len(set(pattern.ranks))}")
