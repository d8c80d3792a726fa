"""Patterns that a program can find in the texts of a key: shared endings and shared metadata. They are proposals, never counted as a person's."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import comb

import duckdb

from atlas.beside.annotations.subjects import SUBJECTS, Pattern, ShownItem
from atlas.cursors import fetch_rows
from atlas.export.visible import visible_text

LONGEST = 4
"""Maximum words of an ending."""

CHANCE = 0.001
"""Significance level: a metadata value is proposed if the probability that as many random texts of the corpus share it is below this."""

WORDS = re.compile(r"\w+|[^\w\s]")
BEFORE_CUT = 80
"""Characters to which token_context cuts the text before a token: a text of this length may begin in the middle of a word."""

SHARES = """
SELECT d.metadata, sum(s.n_positions)::BIGINT
FROM document AS d
INNER JOIN sequence AS s ON d.document_id = s.document_id
WHERE d.corpus_id = $corpus
GROUP BY d.metadata
"""


def proposals(items: Sequence[ShownItem], shares: Mapping[tuple[str, str], float]) -> tuple[Pattern, ...]:
    """Propose patterns in the texts shown for one key, at most as many as there are texts; those that explain most texts come first.

    A shallow pattern is an ending (the last token, or the last 2 to 4 words) that at least 3 texts share; if the same texts share several endings, only the
    longest is proposed. A semantic pattern is a metadata value shared by the documents of at least 3 texts, and by more texts than chance would explain; if the
    same texts share several values, only the most common is proposed. shares: for each value, the share of the corpus's positions that have it.
    """
    least = SUBJECTS["key"].least
    found = endings(items, least) + shared_metadata(items, shares, least)
    return tuple(sorted(found, key=lambda p: (-len(p.ranks), p.kind != "shallow", p.description))[: len(items)])


def endings(items: Iterable[ShownItem], least: int) -> list[Pattern]:
    """Find endings that at least `least` texts share; of endings that the same texts share, only the longest is returned."""
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for item in items:
        for ending in endings_of(item):
            groups[ending].append(item.rank)
    longest: dict[tuple[int, ...], tuple[str, ...]] = {}
    for ending, ranks in sorted(groups.items(), key=lambda group: (len(group[0]), group[0])):
        if len(ranks) >= least:
            longest[tuple(ranks)] = ending
    return [Pattern("shallow", f"ends with “{' '.join(ending)}”", ranks) for ranks, ending in longest.items()]


def endings_of(item: ShownItem) -> list[tuple[str, ...]]:
    """List the endings of a text, casefolded: its last token, and its last 2 to 4 words."""
    token = item.token.strip().casefold() or visible_text(item.token)
    if not item.text_before or not item.token.strip():
        return [(token,)]
    words = WORDS.findall(f"{item.text_before}{item.token}".casefold())
    if len(item.text_before) == BEFORE_CUT:
        words = words[1:]
    return [(token,), *(tuple(words[-n:]) for n in range(2, LONGEST + 1) if len(words) >= n)]


def shared_metadata(items: Sequence[ShownItem], shares: Mapping[tuple[str, str], float], least: int) -> list[Pattern]:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for item in items:
        for fact in facts(item.metadata):
            groups[fact].append(item.rank)
    common: dict[tuple[int, ...], tuple[str, str]] = {}
    for fact, ranks in sorted(groups.items(), key=lambda group: (shares[group[0]], group[0])):
        if len(ranks) >= least and chance(len(ranks), len(items), shares[fact]) < CHANCE:
            common[tuple(ranks)] = fact
    return [Pattern("semantic", f"documents with {key}: {value}", ranks) for ranks, (key, value) in common.items()]


def facts(metadata: str | None) -> list[tuple[str, str]]:
    """List a document's metadata as (key, value) pairs; lists and objects are left out, since each states too much at once."""
    return [(key, str(value)) for key, value in json.loads(metadata or "{}").items() if isinstance(value, str | int | float)]


def chance(k: int, n: int, p: float) -> float:
    """Compute the binomial probability of k or more successes in n trials, each of probability p."""
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def metadata_shares(con: duckdb.DuckDBPyConnection, corpus: int) -> dict[tuple[str, str], float]:
    """Compute for each metadata (key, value) the share of the corpus's positions that are in documents with it."""
    rows = fetch_rows(con, SHARES, {"corpus": corpus})
    total = sum(n for _, n in rows)
    shares: dict[tuple[str, str], float] = defaultdict(float)
    for metadata, n in rows:
        for fact in facts(metadata):
            shares[fact] += n / total
    return dict(shares)
