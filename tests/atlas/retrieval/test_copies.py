"""Hashes of the tokens before a position, against tuples of tokens."""

from collections.abc import Iterator
from contextlib import closing

import duckdb
import numpy as np
import pytest

from atlas.beside.retrieval import copies

CORPUS, BASE = 3, 1000
BOS, CUT = 99, 20
"""Documents are read in sequences of CUT tokens, with a BOS before each."""

LENGTHS = (100, 31, 32, 33, 70, 5, 90)


@pytest.fixture
def tokens() -> list[list[int]]:
    """Of few kinds; the first 50 of a document are the last 50 of another."""
    generator = np.random.default_rng(4)
    found = [generator.integers(0, 3, n).tolist() for n in LENGTHS]
    found[6][:50] = found[0][-50:]
    return found


@pytest.fixture
def con(tokens: list[list[int]]) -> Iterator[duckdb.DuckDBPyConnection]:
    documents, sequences, positions = [(8, CORPUS - 1)], [(500, 8, 0, 300)], [(i, 500, i, 0, i, i + 1) for i in range(300)]
    for i, document in enumerate(tokens):
        documents.append((20 + i, CORPUS))
        for start in range(0, len(document), CUT):
            first, cut = BASE + len(positions), document[start : start + CUT]
            sequences.append((first, 20 + i, first, 1 + len(cut)))
            positions.append((first, first, 0, BOS, start, start))
            positions += [(first + 1 + j, first, 1 + j, token, start + j, start + j + 1) for j, token in enumerate(cut)]
    with closing(duckdb.connect()) as made:
        made.execute("CREATE TABLE document (document_id BIGINT, corpus_id INTEGER)")
        made.execute("CREATE TABLE sequence (sequence_id BIGINT, document_id BIGINT, first_position_id BIGINT, n_positions INTEGER)")
        made.execute(
            'CREATE TABLE "position" (position_id BIGINT, sequence_id BIGINT, "index" INTEGER, token_id INTEGER, char_start INTEGER, char_end INTEGER)'
        )
        for table, rows in (("document", documents), ("sequence", sequences), ("position", positions)):
            made.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(rows[0]))})', rows)
        yield made


def contexts(con: duckdb.DuckDBPyConnection) -> dict[int, tuple[int, ...] | None]:
    """position_id → the 32 tokens up to it without BOS; None where there are fewer."""
    sql = """SELECT s.document_id, p.position_id, p.token_id, p.char_start < p.char_end FROM "position" AS p JOIN sequence AS s USING (sequence_id)
    JOIN document AS d USING (document_id) WHERE d.corpus_id = 3 ORDER BY p.position_id"""
    seen: dict[int, list[int]] = {}
    found: dict[int, tuple[int, ...] | None] = {}
    for document, position, token, is_text in con.execute(sql).fetchall():
        before = seen.setdefault(document, [])
        before += [token] if is_text else []
        found[position] = tuple(before[-32:]) if is_text and len(before) >= 32 else None
    return found


@pytest.mark.parametrize("span", [2**20, 1, 60, 150])
def test_hashes_are_equal_where_32_tokens_are_however_documents_are_read(con: duckdb.DuckDBPyConnection, span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "SPAN", span)
    wanted = contexts(con)
    asked = np.array([*wanted, -1, 5, 10**6])
    np.random.default_rng(0).shuffle(asked)
    found = dict(zip(asked.tolist(), copies.context_hashes(con, CORPUS, asked).tolist(), strict=True))
    assert {p for p, value in found.items() if value == 0} == {-1, 5, 10**6} | {p for p, context in wanted.items() if context is None}
    named: dict[int, tuple[int, ...] | None] = {}
    for position, context in wanted.items():
        if context:
            assert named.setdefault(found[position], context) == context
    assert len(named) == len({context for context in wanted.values() if context}) < sum(context is not None for context in wanted.values())


def test_what_is_read_at_once_does_not_grow_with_the_corpus(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """And documents without a position that is asked for are not read."""
    read: list[int] = []
    rolling = copies.rolling_hashes

    def counted(tokens: np.ndarray, documents: np.ndarray) -> np.ndarray:
        read.append(len(tokens))
        return rolling(tokens, documents)

    monkeypatch.setattr(copies, "rolling_hashes", counted)
    monkeypatch.setattr(copies, "SPAN", 60)
    ids = np.array(list(contexts(con)))
    copies.context_hashes(con, CORPUS, ids)
    assert sum(read) == sum(LENGTHS) and max(read) <= max(LENGTHS) and len(read) > 3
    read.clear()
    assert copies.context_hashes(con, CORPUS, ids[:2]).tolist() == [0, 0]
    assert read == [LENGTHS[0]]


def test_many_neighbours_keep_their_shape(con: duckdb.DuckDBPyConnection) -> None:
    ids = np.array(list(contexts(con)))[:300].reshape(100, 3)
    hashes = copies.context_hashes(con, CORPUS, ids)
    assert hashes.shape == (100, 3)
    assert (hashes.ravel() == copies.context_hashes(con, CORPUS, ids.ravel())).all()


def test_a_query_is_of_the_same_text_as_one_of_its_neighbours() -> None:
    own, theirs = np.array([7, 0, 5], np.uint64), np.array([[1, 7], [0, 3], [4, 0]], np.uint64)
    assert copies.is_same_text(own, theirs).tolist() == [True, False, False]
