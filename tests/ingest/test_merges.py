"""What shards brought, merged some neurons at a time, against numpy over all that was measured."""

from collections.abc import Iterator

import duckdb
import numpy as np
import pytest

from ingest.store import merges
from ingest.store.merges import MERGES, merge_sql, parts
from schema.build import create_tables

SHARDS, LAYERS, NEURONS, POSITIONS, K = 5, 2, 7, 30, 4

RUN = """
    INSERT INTO run BY NAME
    SELECT 0 AS run_id, 'sweep' AS kind, 3 AS corpus_id, '{"triggers": 4}' AS settings, '{}' AS versions, 0 AS seed, 'cpu' AS device,
        TIMESTAMP '2026-01-01' AS started_at, 5 AS n_shards, 'running' AS status
"""


@pytest.fixture
def measured() -> np.ndarray:
    """Coefficients of every position, [shard, position, layer, neuron]."""
    return np.random.default_rng(0).normal(size=(SHARDS, POSITIONS, LAYERS, NEURONS)).astype(np.float32)


@pytest.fixture
def con(measured: np.ndarray) -> Iterator[duckdb.DuckDBPyConnection]:
    """Tables with what each shard brings of it: its own moments, and the K largest and smallest of every neuron."""
    with duckdb.connect() as con:
        create_tables(con, 4)
        con.execute(RUN)
        for s, shard in enumerate(measured):
            for layer in range(LAYERS):
                for neuron in range(NEURONS):
                    bring(con, s, layer, neuron, shard[:, layer, neuron])
        yield con


def bring(con: duckdb.DuckDBPyConnection, shard: int, layer: int, neuron: int, x: np.ndarray) -> None:
    d = x.astype(float)
    row = [3, layer, neuron, len(x), int((x > 0).sum()), d.mean(), d.std(), x.min().item(), x.max().item(), [int((x <= 0).sum()), int((x > 0).sum())]]
    con.execute("INSERT INTO neuron_statistics VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    for tail, order in (("max", np.argsort(-x)), ("min", np.argsort(x))):
        for rank, i in enumerate(order[:K].tolist(), 1):
            position = shard * POSITIONS + i
            con.execute("INSERT INTO trigger VALUES (3, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)", [layer, neuron, tail, rank, position, x[i].item()])


def at_once(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(merges, "ROWS_AT_ONCE", dict.fromkeys(MERGES, n))


def in_parts(con: duckdb.DuckDBPyConnection, table: str, columns: str) -> list[tuple]:
    """Merged part after part, as a publication does."""
    rows = []
    for part in parts(con, table, table):
        rows += con.execute(f"SELECT {columns} FROM ({merge_sql(table, table)}) ORDER BY ALL", part).fetchall()
    return rows


@pytest.mark.thorough
def test_parts_are_every_neuron_once_with_about_so_many_rows(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five shards bring a neuron five rows: three neurons have fifteen, a fourth would make it twenty."""
    at_once(monkeypatch, 19)
    of_a_layer = ((0, 2), (3, 5), (6, 6))
    expected = [(3, layer, *neurons) for layer in range(LAYERS) for neurons in of_a_layer]
    assert list(parts(con, "neuron_statistics", "neuron_statistics")) == expected
    at_once(monkeypatch, 1)
    assert len(list(parts(con, "neuron_statistics", "neuron_statistics"))) == LAYERS * NEURONS


@pytest.mark.thorough
@pytest.mark.parametrize("rows_at_once", [1, 19, 10**6])
def test_merged_part_by_part_is_numpy_over_all_positions(
    con: duckdb.DuckDBPyConnection, measured: np.ndarray, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    at_once(monkeypatch, rows_at_once)
    x = measured.reshape(-1, LAYERS, NEURONS)
    found = in_parts(con, "neuron_statistics", "layer, neuron, n_positions, n_active, mean, std, min, max, histogram")
    assert [row[:2] for row in found] == [(layer, neuron) for layer in range(LAYERS) for neuron in range(NEURONS)]
    for layer, neuron, n, n_active, mean, std, low, high, histogram in found:
        own = x[:, layer, neuron].astype(float)
        assert (n, n_active, histogram) == (len(own), (own > 0).sum(), [(own <= 0).sum(), (own > 0).sum()])
        assert (mean, std) == (pytest.approx(own.mean(), abs=1e-12), pytest.approx(own.std(), rel=1e-12))
        assert (low, high) == (own.min(), own.max())
    best = [
        (layer, neuron, tail, rank, i, x[i, layer, neuron])
        for layer in range(LAYERS)
        for neuron in range(NEURONS)
        for tail, order in (("max", np.argsort(-x[:, layer, neuron])), ("min", np.argsort(x[:, layer, neuron])))
        for rank, i in enumerate(order[:K].tolist(), 1)
    ]
    assert in_parts(con, "trigger", "layer, neuron, tail, rank, position_id, coefficient") == best


@pytest.mark.thorough
def test_what_is_merged_at_once_changes_no_bit(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for rows_at_once in (1, 19, 10**6):
        at_once(monkeypatch, rows_at_once)
        found.append({table: in_parts(con, table, "*") for table in MERGES})
    assert found[0] == found[1] == found[2]


@pytest.mark.thorough
def test_means_of_heads_are_weighted_and_null_where_an_older_release_brought_a_part(con: duckdb.DuckDBPyConnection) -> None:
    names = "corpus_id, layer, head, n_destinations, n_repeated, first_moved, first_moved_uniform"
    # head 1 has a part that is older; that of head 0 without destinations has nothing to say
    rows = [(0, 1, 0.5), (0, 3, 0.25), (0, 0, None), (1, 1, 0.5), (1, 3, None)]
    con.executemany(f"INSERT INTO head_statistics ({names}) VALUES (3, 0, ?, ?, 0, ?, 0.125)", rows)
    assert in_parts(con, "head_statistics", "head, n_destinations, first_moved, first_moved_uniform") == [(0, 4, 0.3125, 0.125), (1, 4, None, 0.125)]
