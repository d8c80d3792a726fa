"""The annotation figures of both papers, against plain loops over what two annotators were shown and explained."""

import csv
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import atlas
from atlas.beside.annotations.steps import load, make_sheet
from tests.exact.checks import Case
from tests.exact.crafted import same, value_scores
from tests.exact.test_paper_questions import ranked_positions

pytestmark = pytest.mark.thorough

PER_LAYER = 4
SUBJECTS = ("key", "value", "random_vector", "ffn_update")


@dataclass(frozen=True)
class Look:
    """One annotator's look at one thing: ids shown (positions or tokens) by rank, and for each pattern its kind and the ids it explains."""

    subject: str
    layer: int
    item: int
    ids: tuple[int, ...]
    patterns: tuple[tuple[str, frozenset[int]], ...]

    def kinds(self, shown: int) -> set[str]:
        return {kind for kind, explained in self.patterns if shown in explained}


def shown_by_the_reference(c: Case, subject: str, layer: int, item: int) -> tuple[int, ...]:
    if subject == "key":
        first: dict[int, int] = {}
        for position in ranked_positions(c, layer, item):
            first.setdefault(int(c.cut.sequence[position]), position)
        return tuple(first.values())[:25]
    if subject == "value":
        return tuple(int(t) for t in np.argsort(-value_scores(c, layer, item), kind="stable")[:30])
    # these are checked by themselves, in paper_checks
    stored = c.published.rows(f"SELECT token_id FROM control_token WHERE control = '{subject}' AND layer = {layer} AND item = {item} ORDER BY rank")
    return tuple(t for (t,) in stored)


def anna(c: Case, subject: str, ids: tuple[int, ...]) -> list[tuple[str, frozenset[int]]]:
    """The last token most texts share, and every other text; of tokens those that 2, 3 and 7 divide."""
    if subject == "key":
        (token, _), *_ = Counter(int(c.cut.token_ids[p]) for p in ids).most_common()
        wanted = [("shallow", {p for p in ids if c.cut.token_ids[p] == token}), ("semantic", set(ids[::2]))]
    else:
        wanted = [(kind, {t for t in ids if t % n == 0}) for kind, n in (("semantic", 2), ("syntactic", 3), ("names", 7))]
    least = 3 if subject == "key" else 4
    return [(kind, frozenset(explained)) for kind, explained in wanted if len(explained) >= least]


def bert(_: Case, subject: str, ids: tuple[int, ...]) -> list[tuple[str, frozenset[int]]]:
    """The first six, and nothing where the first is an odd number."""
    return [] if ids[0] % 2 else [("shallow" if subject == "key" else "names", frozenset(ids[:6]))]


def number(cell: str) -> int:
    """Of a token, a neuron or a position, before which stands p."""
    return int(cell.removeprefix("p"))


def fill_in(c: Case, path: Path, finds: Callable[[Case, str, tuple[int, ...]], list[tuple[str, frozenset[int]]]]) -> Iterator[Look]:
    """Write what an annotator finds into a sheet."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    blocks: dict[tuple[str, int, int], list[list[str]]] = {}
    for row in rows:
        if row and row[0] in SUBJECTS:
            blocks.setdefault((row[0], int(row[1]), number(row[2])), []).append(row)
    for (subject, layer, item), block in blocks.items():
        ids = tuple(number(row[5]) for row in block)
        assert ids == shown_by_the_reference(c, subject, layer, item), f"{c.name} {subject} {layer} {item}"
        patterns = finds(c, subject, ids)
        for row in block:
            row[10] = "".join("abc"[i] for i, (_, explained) in enumerate(patterns) if number(row[5]) in explained)
        for row, (kind, _) in zip(block, patterns, strict=False):
            row[12:] = [kind, "…"]
        if not patterns:
            block[0][12] = "none"
        yield Look(subject, layer, item, ids, tuple(patterns))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture(scope="module")
def looks(c: Case, file: Path) -> list[Look]:
    """Everything that anna and bert saw of the same sample; their sheets are loaded into the file's annotations."""
    found = []
    for subject in SUBJECTS:
        for name, finds in (("anna", anna), ("bert", bert)):
            sheet = file.with_name(f"{subject}-{name}.csv")
            with atlas.open(file) as a:
                sheet.write_bytes(make_sheet(a.con, a.path, subject, PER_LAYER, 0, None, None)[0])
                found += fill_in(c, sheet, finds)
                load(a.con, file, sheet, name, is_replacing=False)
    assert len(found) == 2 * len(SUBJECTS) * PER_LAYER * c.n_layers
    return found


@pytest.fixture(scope="module")
def file(c: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, for one process opens a file in one way only."""
    return Path(shutil.copy(c.published.rows("SELECT path FROM duckdb_databases() WHERE NOT internal")[0][0], tmp_path_factory.mktemp("annotated")))


def asked(file: Path, call: str) -> list[tuple]:
    with atlas.open(file) as a:
        return a.sql(f"FROM annotations.{call}").rows()


def test_figure_2_of_2021(c: Case, file: Path, looks: list[Look]) -> None:
    want = []
    for layer in range(c.n_layers):
        keys = [look for look in looks if look.subject == "key" and look.layer == layer]
        kinds = [look.kinds(shown) for look in keys for shown in look.ids]
        shares = [sum(found == wanted for found in kinds) / len(kinds) for wanted in ({"shallow"}, {"semantic"}, {"shallow", "semantic"}, set())]
        assert sum(shares) == pytest.approx(1) and all(shares)
        want.append((layer, "person", len(keys), len(kinds), *shares))
    same(asked(file, "geva2021_fig2()"), want)


def test_patterns_of_2021(file: Path, looks: list[Look]) -> None:
    keys = [look for look in looks if look.subject == "key"]
    n_shallow, n_semantic = (sum(kind == wanted for look in keys for kind, _ in look.patterns) for wanted in ("shallow", "semantic"))
    with_pattern, n_prefixes = sum(bool(look.patterns) for look in keys), sum(len(look.ids) for look in keys)
    n_covered = sum(bool(look.kinds(shown)) for look in keys for shown in look.ids)
    per_key = [n / len(keys) for n in (n_shallow + n_semantic, n_shallow, n_semantic, with_pattern)]
    assert with_pattern < len(keys)
    same(asked(file, "geva2021_patterns()"), [("person", 2, len(keys), n_prefixes, *per_key, n_covered / n_prefixes)])


def kind_shares(kinds: list[set[str]]) -> list[float]:
    """Of one kind alone, each of the three, and of several."""
    shares = [sum(found == {kind} for found in kinds) / len(kinds) for kind in ("semantic", "syntactic", "names")]
    return [*shares, sum(len(found) > 1 for found in kinds) / len(kinds)]


def test_concepts_of_2022(c: Case, file: Path, looks: list[Look]) -> None:
    stop = dict(c.published.rows("SELECT token_id, is_stop_word FROM token"))
    want = []
    for subject in ("value", "random_vector", "ffn_update"):
        vectors = [look for look in looks if look.subject == subject]
        tokens = [(look.kinds(shown), stop[shown]) for look in vectors for shown in look.ids]
        others = [kinds for kinds, is_stop in tokens if not is_stop]
        in_concept, without = (sum(map(bool, some)) / len(some) for some in ([kinds for kinds, _ in tokens], others))
        n_concepts, n_stop = sum(len(look.patterns) for look in vectors), len(tokens) - len(others)
        shares = kind_shares([kinds for kinds, _ in tokens])
        assert all(shares) and sum(shares) == pytest.approx(in_concept)
        want.append((subject, "person", len(vectors), n_concepts, len(tokens), n_stop, in_concept, without, *shares))
    assert any(row[5] for row in want), "some tokens are stop words"
    same(asked(file, "geva2022_concepts()"), want)


def test_figure_2_of_2022(c: Case, file: Path, looks: list[Look]) -> None:
    for subject in ("value", "random_vector", "ffn_update"):
        want = []
        for layer in range(c.n_layers):
            vectors = [look for look in looks if look.subject == subject and look.layer == layer]
            kinds = [look.kinds(shown) for look in vectors for shown in look.ids]
            uncovered = sum(not found for found in kinds) / len(kinds)
            want.append((layer, "person", len(vectors), len(kinds), *kind_shares(kinds), uncovered))
        same(asked(file, f"geva2022_fig2(subject := '{subject}')"), want)
