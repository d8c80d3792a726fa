"""Neighbours against a numpy loop, faiss's own exact index, and a pencil."""

from pathlib import Path

import faiss
import numpy as np
import pytest
from rich.progress import Progress

from atlas.beside.retrieval import compressed, entries, search
from atlas.beside.retrieval.entries import Store
from atlas.beside.retrieval.search import NOWHERE, Neighbours, Queries, every_entry, neighbours
from tests.atlas.retrieval.stores import store_of

OTHERS = 1000


def found(store: Store, keys: np.ndarray, k: int, documents: np.ndarray | None = None, is_compressed: bool = False) -> Neighbours:
    queries = Queries(keys.astype(np.float32), np.full(len(keys), OTHERS) if documents is None else documents)

    def texts(of: np.ndarray) -> np.ndarray:
        return of

    propose = compressed.build_proposer(store, texts, Progress(disable=True)) if is_compressed else every_entry(store, texts)
    return neighbours(store, queries, k, propose, lambda _: None)


def by_loop(keys: np.ndarray, queries: np.ndarray, k: int, own: list[set[int]]) -> list[list[tuple[float, int]]]:
    """(distance, position_id) of the nearest, in float64 over the stored numbers."""
    stored, rows = keys.astype(np.float16).astype(np.float64), []
    for query, left_out in zip(queries.astype(np.float64), own, strict=True):
        rows.append(sorted((float(((key - query) ** 2).sum()), 10 * (i + 1)) for i, key in enumerate(stored) if i not in left_out)[:k])
    return rows


@pytest.fixture
def made() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """900 keys far from the origin, 40 queries among them, and the documents of the keys, 30 each."""
    generator = np.random.default_rng(0)
    keys = generator.normal(30, 3, (900, 24)).astype(np.float16)
    return keys, generator.normal(30, 3, (40, 24)).astype(np.float32), np.repeat(np.arange(30), 30)


def test_neighbours_of_four_entries_worked_by_hand(tmp_path: Path) -> None:
    """Keys (0,0), (1,0), (0,2) and (0,-2); from (0,0.5) they are at 0.25, 1.25, 2.25 and 6.25, from (0,0) two are at 4, of which the first comes first."""
    store = store_of(tmp_path, np.array([[0, 0], [1, 0], [0, 2], [0, -2]]), np.array([7, 8, 7, 9]), np.array([0, 0, 1, 1]))
    nearest = found(store, np.array([[0, 0.5], [0, 0]]), 4)
    assert nearest.distances.tolist() == [[0.25, 1.25, 2.25, 6.25], [0, 1, 4, 4]]
    assert nearest.position_ids.tolist() == [[10, 20, 30, 40], [10, 20, 30, 40]]
    assert nearest.next_token_ids.tolist() == [[7, 8, 7, 9], [7, 8, 7, 9]]


@pytest.mark.parametrize("block_bytes", [2**26, 5000])
def test_neighbours_are_those_of_a_loop(tmp_path: Path, made: tuple, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the store is cut into blocks, and the queries into parts."""
    monkeypatch.setattr(entries, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(search, "QUERIES_AT_ONCE", 17)
    keys, queries, documents = made
    nearest = found(store_of(tmp_path, keys, np.arange(900), documents, group=20), queries, 50)
    wanted = by_loop(keys, queries, 50, [set()] * 40)
    assert nearest.position_ids.tolist() == [[position for _, position in row] for row in wanted]
    np.testing.assert_allclose(nearest.distances, [[distance for distance, _ in row] for row in wanted], rtol=1e-5)
    assert (nearest.next_token_ids == nearest.position_ids // 10 - 1).all()


def test_distances_are_squared_once(tmp_path: Path, made: tuple) -> None:
    """faiss's exact index gives squared distances, and so does the atlas."""
    keys, queries, documents = made
    index = faiss.IndexFlatL2(24)
    index.add(keys.astype(np.float32))
    np.testing.assert_allclose(found(store_of(tmp_path, keys, np.arange(900), documents), queries, 20).distances, index.search(queries, 20)[0], rtol=1e-3)


@pytest.mark.parametrize("block_bytes", [2**26, 5000])
def test_entries_of_the_querys_own_text_are_left_out(tmp_path: Path, made: tuple, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "BLOCK_BYTES", block_bytes)
    keys, queries, documents = made
    of_queries = np.array([i if i < 30 else OTHERS for i in range(40)])
    store = store_of(tmp_path, keys, np.arange(900), documents, group=20)
    own = [set(np.flatnonzero(documents == document)) for document in of_queries]
    nearest = found(store, queries, 15, of_queries)
    assert nearest.position_ids.tolist() == [[position for _, position in row] for row in by_loop(keys, queries, 15, own)]


def test_a_store_that_is_asked_with_its_own_keys_finds_them_at_0(tmp_path: Path, made: tuple) -> None:
    """Where their own text is allowed."""
    keys, _, documents = made
    nearest = found(store_of(tmp_path, keys, np.arange(900), documents), keys, 3)
    assert nearest.distances[:, 0].tolist() == [0.0] * 900
    assert nearest.position_ids[:, 0].tolist() == (10 * np.arange(1, 901)).tolist()


def test_ties_go_to_the_smaller_position(tmp_path: Path) -> None:
    keys = np.tile(np.array([[1.0, 2.0]]), (200, 1))
    nearest = found(store_of(tmp_path, keys, np.arange(200), np.zeros(200, int), group=7), np.array([[0.0, 0.0]]), 5)
    assert nearest.distances.tolist() == [[5.0] * 5]
    assert nearest.position_ids.tolist() == [[10, 20, 30, 40, 50]]


def test_a_store_with_fewer_entries_than_are_wanted_gives_those(tmp_path: Path) -> None:
    store = store_of(tmp_path, np.array([[0, 0], [1, 0], [5, 0]]), np.array([1, 2, 3]), np.array([0, 0, 4]))
    nearest = found(store, np.array([[0.0, 0.0]]), 4, np.array([4]))
    assert nearest.position_ids.tolist() == [[10, 20, NOWHERE, NOWHERE]]
    assert nearest.distances.tolist() == [[0.0, 1.0, np.inf, np.inf]]


@pytest.mark.parametrize("of_queries", [[OTHERS] * 40, list(range(30)) + [OTHERS] * 10])
def test_a_compressed_index_proposes_nearly_all_and_its_distances_are_exact(tmp_path: Path, made: tuple, of_queries: list[int]) -> None:
    keys, queries, documents = made
    store = store_of(tmp_path, keys, np.arange(900), documents, group=20)
    exact = found(store, queries, 20, np.array(of_queries))
    coarse = found(store, queries, 20, np.array(of_queries), is_compressed=True)
    shared = [len(set(a) & set(b)) for a, b in zip(exact.position_ids.tolist(), coarse.position_ids.tolist(), strict=True)]
    assert np.mean(shared) > 18
    for row, query, document in zip(range(40), queries, of_queries, strict=True):
        places = coarse.position_ids[row] // 10 - 1
        assert document not in documents[places]
        wanted = ((keys[places].astype(np.float64) - query) ** 2).sum(1)
        np.testing.assert_allclose(coarse.distances[row], wanted, rtol=1e-5)


def test_an_index_has_a_list_for_every_forty_entries(tmp_path: Path) -> None:
    store = store_of(tmp_path, np.random.default_rng(0).normal(size=(120, 2)), np.arange(120), np.arange(120))
    assert compressed.build_index(store, Progress(disable=True)).nlist == 3


def test_codes_have_the_most_bytes_that_divide_a_key() -> None:
    assert [compressed.code_bytes(d) for d in (576, 768, 4096, 128, 30, 97)] == [64, 64, 64, 64, 30, 1]
