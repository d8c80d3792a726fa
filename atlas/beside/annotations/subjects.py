"""Subjects of annotation: keys by the texts that trigger them; values, random vectors and FFN updates by the tokens they promote."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import duckdb

from atlas.commands import complete
from atlas.cursors import fetch_rows
from schema.errors import AtlasError

# a coefficient of 0 is no trigger: a ReLU key that fires less often than the atlas keeps triggers has any texts at its last ranks
TRIGGERS = """
SELECT t.corpus_id, t.layer, t.neuron::BIGINT AS item, t.rank, t.position_id, p.token_id, p.sequence_id
FROM trigger AS t
INNER JOIN position AS p ON t.position_id = p.position_id
WHERE t.tail = 'max' AND t.coefficient > 0
"""
VALUE_TOKENS = """
SELECT NULL::INTEGER AS corpus_id, v.layer, v.neuron::BIGINT AS item, v.rank, NULL::BIGINT AS position_id, v.token_id, NULL::BIGINT AS sequence_id
FROM value_token AS v
WHERE v.direction = 'promoted' AND v.rank <= 30
"""
RANDOM_VECTOR_TOKENS = """
SELECT NULL::INTEGER AS corpus_id, c.layer, c.item, c.rank, NULL::BIGINT AS position_id, c.token_id, NULL::BIGINT AS sequence_id
FROM control_token AS c
WHERE c.control = 'random_vector' AND c.rank <= 30
"""
UPDATE_TOKENS = """
SELECT d.corpus_id, c.layer, c.item, c.rank, NULL::BIGINT AS position_id, c.token_id, NULL::BIGINT AS sequence_id
FROM control_token AS c
INNER JOIN position AS p ON c.item = p.position_id
INNER JOIN sequence AS s ON p.sequence_id = s.sequence_id
INNER JOIN document AS d ON s.document_id = d.document_id
WHERE c.control = 'ffn_update' AND c.rank <= 30
"""


@dataclass(frozen=True)
class Subject:
    """One kind of thing to annotate.

    name: the stored name. option: the name on the command line. title: the name for people. least: the fewest shown items that a pattern
    may explain. items: SQL for the items that can be shown, with corpus_id, layer, item, rank, position_id, token_id, sequence_id. brought_by: options of
    `atlas ingest` that add such items.
    """

    name: str
    option: str
    title: str
    kinds: tuple[str, ...]
    least: int
    items: str
    has_corpus: bool
    missing: str
    brought_by: str


MOST_TEXTS = 25
"""Most texts shown of a key, as many as the paper's annotators saw; at most one per sequence, since a single passage could otherwise supply all of them."""

BATCH = 500
"""Addresses whose texts are read at once: the texts of a whole model would not fit in memory."""

CONCEPTS = ("semantic", "syntactic", "names")

SUBJECTS = {
    s.name: s
    for s in (
        Subject("key", "keys", "key", ("shallow", "semantic"), 3, TRIGGERS, True, "no triggers", "--corpus …"),
        Subject("value", "values", "value", CONCEPTS, 4, VALUE_TOKENS, False, "no values", ""),
        Subject("random_vector", "random-vectors", "random vector", CONCEPTS, 4, RANDOM_VECTOR_TOKENS, False, "no random vectors", "--corpus … --paper"),
        Subject("ffn_update", "updates", "update", CONCEPTS, 4, UPDATE_TOKENS, True, "no FFN updates of its own", "--corpus … --paper"),
    )
}
"""Stored name → subject. The least numbers are the papers': 3 prefixes (Geva et al. 2021, section 3), 4 tokens (Geva et al. 2022, section 4)."""


@dataclass(frozen=True, order=True)
class Address:
    """One key or vector to annotate; `corpus_id` is None for values and random vectors, `item` is as in annotation.item."""

    subject: str
    corpus_id: int | None
    layer: int
    item: int

    def __str__(self) -> str:
        of_corpus = "" if self.corpus_id is None else f" of corpus {self.corpus_id}"
        if self.subject in ("key", "value"):
            return f"{self.subject} L{self.layer}N{self.item}{of_corpus}"
        return f"{SUBJECTS[self.subject].title} {self.item} of layer {self.layer}"


@dataclass(frozen=True)
class ShownItem:
    """One text or token that is shown; `token` is the last token of a text. `text_before`, `next_token` and `document` are None for tokens.

    n_more: how many other texts of the same key are in the text's sequence.
    """

    rank: int
    position_id: int | None
    token_id: int
    is_stop_word: bool
    text_before: str | None
    token: str
    next_token: str | None
    document: str | None
    metadata: str | None
    n_more: int = 0

    @property
    def id(self) -> int:
        """Identity of the item: position_id of a text, token_id of a token."""
        return self.token_id if self.position_id is None else self.position_id


@dataclass(frozen=True)
class Pattern:
    """A property that several of the shown items have in common; `ranks` are the ranks of the items it explains."""

    kind: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Annotation:
    """One annotator's look at one address: all items that were shown, and the patterns found in them."""

    address: Address
    items: tuple[ShownItem, ...]
    patterns: tuple[Pattern, ...]


def sample(con: duckdb.DuckDBPyConnection, path: Path, subject: Subject, per_layer: int, seed: int, corpus: int | None) -> list[Address]:
    """Draw at most `per_layer` addresses of each layer of the atlas at `path`, by the md5 of seed and address, so that the order of rows does not matter.

    Raises AtlasError if the atlas or the named corpus has none, or if the atlas has several corpora and `corpus` is None.
    """
    rows = f"SELECT i.corpus_id, i.layer, i.item FROM ({subject.items}) AS i WHERE i.rank = 1"
    corpora = [c for (c,) in fetch_rows(con, f"SELECT DISTINCT r.corpus_id FROM ({rows}) AS r ORDER BY ALL")]
    if not corpora:
        how = complete(con, f"atlas ingest {quote(str(path))} --model … {subject.brought_by}".rstrip(), corpus)
        raise AtlasError(f"this atlas has {subject.missing}: `{how}` adds them")
    if subject.has_corpus and corpus is None and len(corpora) > 1:
        raise AtlasError(f"which corpus? Give --corpus, one of {', '.join(str(c) for c in corpora)}")
    if subject.has_corpus and corpus is not None and corpus not in corpora:
        raise AtlasError(f"no {subject.option} of corpus {corpus}; these corpora have some: {', '.join(str(c) for c in corpora)}")
    drawn = f"""
    SELECT r.corpus_id, r.layer, r.item
    FROM ({rows}) AS r
    WHERE $corpus IS NULL OR r.corpus_id = $corpus
    QUALIFY row_number() OVER (PARTITION BY r.layer ORDER BY md5(concat_ws(':', $seed, r.layer, r.item))) <= $per_layer
    ORDER BY ALL
    """
    chosen = {"corpus": corpus if subject.has_corpus else None, "seed": seed, "per_layer": per_layer}
    return [Address(subject.name, *row) for row in fetch_rows(con, drawn, chosen)]


def read_shown_items(con: duckdb.DuckDBPyConnection, addresses: Iterable[Address], *, every: bool = False) -> dict[Address, tuple[ShownItem, ...]]:
    """Read the items that the atlas shows at each address, by rank; addresses that the atlas does not have are left out.

    every: read all stored texts of a key, since a sheet of an earlier release may have texts that are not shown now.
    """
    found: dict[Address, list[ShownItem]] = {}
    wanted = dict.fromkeys(addresses)
    for subject in SUBJECTS.values():
        for batch in batches([a for a in wanted if a.subject == subject.name]):
            for address, item in fetch_shown_items(con, subject, batch, every):
                found.setdefault(address, []).append(item)
    return {address: tuple(items) for address, items in found.items()}


def batches(addresses: Sequence[Address]) -> Iterator[Sequence[Address]]:
    return (addresses[start : start + BATCH] for start in range(0, len(addresses), BATCH))


def fetch_shown_items(con: duckdb.DuckDBPyConnection, subject: Subject, addresses: Sequence[Address], every: bool) -> list[tuple[Address, ShownItem]]:
    sql = f"""
    WITH
    asked AS (
        SELECT unnest($corpora::INTEGER[]) AS corpus_id, unnest($layers::INTEGER[]) AS layer, unnest($items::BIGINT[]) AS item
    ),
    found AS (
        SELECT
            i.*,
            i.sequence_id IS NULL OR $every AS is_listed,
            row_number() OVER (PARTITION BY i.corpus_id, i.layer, i.item, i.sequence_id ORDER BY i.rank) AS place,
            if(i.sequence_id IS NULL, 0, count(*) OVER (PARTITION BY i.corpus_id, i.layer, i.item, i.sequence_id) - 1) AS n_more
        FROM ({subject.items}) AS i
        INNER JOIN asked AS a ON i.layer = a.layer AND i.item = a.item AND i.corpus_id IS NOT DISTINCT FROM a.corpus_id
    ),
    hit AS MATERIALIZED (
        SELECT f.*
        FROM found AS f
        WHERE f.is_listed OR f.place = 1
        QUALIFY f.is_listed OR row_number() OVER (PARTITION BY f.corpus_id, f.layer, f.item ORDER BY f.rank) <= {MOST_TEXTS}
    )
    SELECT
        h.corpus_id, h.layer, h.item, h.rank, h.position_id, h.token_id, k.is_stop_word,
        c.text_before, coalesce(c.token, k.text), c.next_token, c.document, c.metadata, h.n_more
    FROM hit AS h
    INNER JOIN token AS k ON h.token_id = k.token_id
    LEFT JOIN token_context((SELECT list(t.position_id) FROM hit AS t)) AS c ON h.position_id = c.position_id
    ORDER BY h.corpus_id, h.layer, h.item, h.rank
    """
    parameters: dict[str, object] = {
        "every": every,
        "corpora": [a.corpus_id for a in addresses],
        "layers": [a.layer for a in addresses],
        "items": [a.item for a in addresses],
    }
    return [(Address(subject.name, *row[:3]), ShownItem(*row[3:])) for row in fetch_rows(con, sql, parameters)]
