"""Steps of `atlas annotate`: write a sheet, load one, propose patterns, report what has been annotated."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
import polars as pl

from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.checking import Entry, Faults, annotations, blocks_by_address, refusal
from atlas.beside.annotations.keeping import MINER, find_annotation_ids, ids_shown, insert, patterns_of, remove
from atlas.beside.annotations.mining import metadata_shares, proposals
from atlas.beside.annotations.reading import read_sheet
from atlas.beside.annotations.sheet import sheet
from atlas.beside.annotations.subjects import MOST_TEXTS, SUBJECTS, Address, Annotation, Pattern, ShownItem, Subject, batches, read_shown_items, sample
from atlas.cursors import fetch_rows
from atlas.frames import fetch
from atlas.model_row import model_weights
from atlas.naming import normalise_name
from schema.errors import AtlasError
from schema.open.change import change_companion_with_atlas

Items = Mapping[Address, tuple[ShownItem, ...]]

STATUS = """
WITH
covered AS (
    SELECT i.annotation_id, count(*) AS n_items, count(*) FILTER (i.n_patterns > 0) AS n_covered
    FROM annotations.annotated_item AS i
    GROUP BY i.annotation_id
),
found AS (SELECT p.annotation_id, count(*) AS n_patterns FROM annotations.pattern AS p GROUP BY p.annotation_id)
SELECT
    a.subject,
    a.annotator,
    if(a.is_proposed, 'proposed', 'person') AS annotator_kind,
    count(*) AS n_annotated,
    coalesce(sum(f.n_patterns), 0)::BIGINT AS n_patterns,
    sum(c.n_items)::BIGINT AS n_items,
    sum(c.n_covered) / sum(c.n_items) AS covered,
    max(a.created_at) AS last_loaded
FROM annotations.annotation AS a
INNER JOIN covered AS c ON a.annotation_id = c.annotation_id
LEFT JOIN found AS f ON a.annotation_id = f.annotation_id
GROUP BY a.subject, a.annotator, a.is_proposed
ORDER BY a.subject, a.is_proposed, a.annotator
"""

KEPT_ITEMS = """
SELECT a.annotator, a.subject, a.corpus_id, a.layer, a.item, i.rank, coalesce(i.position_id, i.token_id), i.text_before, i.token
FROM annotations.annotation AS a
INNER JOIN annotations.annotation_item AS i ON a.annotation_id = i.annotation_id
ORDER BY a.annotation_id, i.rank
"""


SPELT = "SELECT a.annotator FROM annotations.annotation AS a WHERE lower(a.annotator) = lower($name) ORDER BY a.annotator <> $name, a.annotation_id LIMIT 1"


def make_sheet(
    con: duckdb.DuckDBPyConnection, path: Path, subject: str, per_layer: int, seed: int, corpus: int | None, annotator: str | None
) -> tuple[bytes, list[str]]:
    """Make a sheet of a seeded sample, in which the patterns that `annotator` has already found are filled in beside the texts and tokens that they explain.

    The second result has sentences about annotated items that have another rank now or are no longer shown, and about patterns that then explain too few items.
    """
    found = read_shown_items(con, sample(con, path, SUBJECTS[subject], per_layer, seed, corpus))
    former = patterns_of(con, annotator) if annotator else {}
    before = ids_shown(con, annotator) if annotator else {}
    every = read_shown_items(con, found.keys() & former.keys(), every=True)
    found |= {address: add_items_by_id(found[address], every[address], before[address].values()) for address in every}
    moves = [move_patterns(patterns, before[address], found[address]) for address, patterns in former.items() if address in found]
    placed = {address: move.patterns for address, move in zip((a for a in former if a in found), moves, strict=True)}
    return sheet(subject, found, placed), list(describe_moves(moves, SUBJECTS[subject]))


def add_items_by_id(items: Iterable[ShownItem], every: Iterable[ShownItem], ids: Iterable[int]) -> tuple[ShownItem, ...]:
    """Add to `items` those of `every` that have one of the ids, by rank: items that an annotator was shown before then appear beside those shown now."""
    wanted = {*(item.id for item in items), *ids}
    return tuple(item for item in every if item.id in wanted)


def texts_of_blocks(blocks: Mapping[Address, list[Entry]], now: Items, every: Items) -> dict[Address, tuple[ShownItem, ...]]:
    """Select the items that each block of a sheet must have.

    For a key these are the texts shown now or, as in earlier releases, the first MOST_TEXTS stored texts. Other stored texts that the block has are added.
    """
    found = dict(now)
    for address in now:
        if SUBJECTS[address.subject].name == "key":
            ranks, first = {entry.rank for entry in blocks[address]}, {item.rank for item in every[address] if item.rank <= MOST_TEXTS}
            wanted = first if first <= ranks else {item.rank for item in now[address]}
            found[address] = tuple(item for item in every[address] if item.rank in ranks | wanted)
    return found


class MovedPatterns(NamedTuple):
    """Patterns of one address, with the present ranks of the items they explain.

    n_moved: how many of these items have another rank than before. n_gone: how many are no longer shown.
    """

    patterns: tuple[Pattern, ...]
    n_moved: int
    n_gone: int


def move_patterns(patterns: Sequence[Pattern], before: Mapping[int, int], items: Iterable[ShownItem]) -> MovedPatterns:
    """Move patterns to their items' present ranks. before: rank → id when the patterns were found. items: the items that the atlas shows now."""
    now = {item.rank: item.id for item in items}
    ranks = {item_id: rank for rank, item_id in reversed(now.items())}
    explained = {rank for pattern in patterns for rank in pattern.ranks}
    to = {rank: rank if now.get(rank) == before[rank] else ranks.get(before[rank]) for rank in explained if rank in before}
    placed = [Pattern(p.kind, p.description, tuple(sorted(place for rank in p.ranks if (place := to.get(rank)) is not None))) for p in patterns]
    return MovedPatterns(tuple(placed), sum(place not in (rank, None) for rank, place in to.items()), sum(place is None for place in to.values()))


def describe_moves(moves: Iterable[MovedPatterns], subject: Subject) -> Iterator[str]:
    things = "texts" if subject.name == "key" else "tokens"
    if n := sum(move.n_moved for move in moves):
        yield f"{n} {things} that patterns explain have other ranks than when they were annotated: their letters have moved with them"
    if n := sum(move.n_gone for move in moves):
        yield f"{n} {things} that patterns explained are not shown any more, so their letters are left out"
    n_short = sum(len(pattern.ranks) < subject.least for move in moves for pattern in move.patterns)
    if n_short:
        yield f"{n_short} patterns explain fewer than {subject.least} of the {things} that are shown: complete them, or delete their kind and description"


class LoadCounts(NamedTuple):
    """Counts of a loaded sheet. n: annotated keys or vectors. n_empty: blocks left empty. n_stay: empty blocks whose earlier annotation stays."""

    n: int
    n_empty: int
    n_stay: int


def load(con: duckdb.DuckDBPyConnection, path: Path, sheet_path: Path, annotator: str, *, is_replacing: bool) -> LoadCounts:
    """Store a filled-in sheet as the annotations of `annotator`, all of it or nothing. `con` has the atlas at `path` open.

    Raises AtlasError, with the rows that break a rule, if there are any.
    """
    annotator = kept_name(con, annotator)
    faults = Faults()
    blocks = blocks_by_address(read_sheet(sheet_path), faults)
    found = annotations(blocks, texts_of_blocks(blocks, read_shown_items(con, blocks), read_shown_items(con, blocks, every=True)), faults)
    with change_companion_with_atlas(ANNOTATIONS, path) as (writer, own):
        former = find_annotation_ids(own, annotator)
        again = [a.address for a in found if a.address in former]
        if not is_replacing:
            for address in again:
                faults.add(blocks[address][0].row, f"{annotator} has annotated {address} already; --replace replaces that annotation")
        if faults.found:
            raise refusal(sheet_path, faults)
        if not found:
            raise AtlasError(f"{sheet_path} has nothing filled in; its first rows say how")
        remove(writer, [former[address] for address in again])
        insert(writer, found, annotator, model_weights(con))
    empty = blocks.keys() - {a.address for a in found}
    return LoadCounts(len(found), len(empty), len(empty & former.keys()))


def kept_name(con: duckdb.DuckDBPyConnection, annotator: str) -> str:
    """Return an annotator's name in its stored spelling, since names that differ only in case are one person's.

    If several spellings are stored, the given one is preferred, then the oldest; if none is stored, the given one is returned, normalised. Raises AtlasError
    for MINER, and for a name that no person may have.
    """
    name = annotator.strip()
    if name.lower() == MINER:
        raise AtlasError(f"{annotator!r} cannot be an annotator's name: proposals are stored under it")
    known = fetch_rows(con, SPELT, {"name": name})
    return str(known[0][0]) if known else normalise_name(annotator, "person")


def propose(con: duckdb.DuckDBPyConnection, path: Path, per_layer: int, seed: int, corpus: int | None) -> int:
    """Replace earlier proposals by proposals for a seeded sample of keys; return the number of keys."""
    addresses = sample(con, path, SUBJECTS["key"], per_layer, seed, corpus)
    with change_companion_with_atlas(ANNOTATIONS, path) as (writer, own):
        remove(writer, find_annotation_ids(own, MINER).values())
        for batch in batches(addresses):
            insert(writer, mine_annotations(con, read_shown_items(con, batch)), MINER, model_weights(con))
    return len(addresses)


def mine_annotations(con: duckdb.DuckDBPyConnection, found: Mapping[Address, tuple[ShownItem, ...]]) -> list[Annotation]:
    shares = {corpus: metadata_shares(con, corpus) for corpus in {address.corpus_id for address in found} if corpus is not None}
    return [Annotation(a, items, proposals(items, shares[a.corpus_id])) for a, items in found.items() if a.corpus_id is not None]


def status(con: duckdb.DuckDBPyConnection) -> tuple[pl.DataFrame, list[tuple[str, Address, int]]]:
    """Count annotations, one row per subject and annotator; list every item that the atlas no longer shows as it was annotated: (annotator, address, rank)."""
    stale = list(stale_items(con))
    counts = Counter((address.subject, annotator) for annotator, address, _ in stale)
    frame = fetch(con, STATUS)
    n_stale = [counts[look] for look in frame.select("subject", "annotator").iter_rows()]
    return frame.with_columns(pl.Series("n_stale", n_stale, dtype=pl.Int64)), stale


def stale_items(con: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, Address, int]]:
    """Yield annotated items that the atlas no longer shows, or shows with another text. A new rank alone does not matter."""
    kept = [(row[0], Address(*row[1:5]), row[5], row[6:]) for row in fetch_rows(con, KEPT_ITEMS)]
    now = read_shown_items(con, {address for _, address, _, _ in kept}, every=True)
    texts = {address: {(i.id, i.text_before, collapse_byte_pieces(i.token)) for i in items} for address, items in now.items()}
    for annotator, address, rank, (item, before, token) in kept:
        if (item, before, collapse_byte_pieces(token)) not in texts.get(address, set()):
            yield annotator, address, rank


def collapse_byte_pieces(token: str) -> str:
    """Replace the bytes in a token that form no whole character by one U+FFFD: earlier releases wrote U+FFFD for each piece, this one spells out the bytes."""
    return re.sub("⟨[0-9A-F ]+⟩|\ufffd(.*\ufffd)?", "\ufffd", token, flags=re.DOTALL)
