"""Neurons by range, on the tiny atlas: norms are those of VALUES, statistics those of STATISTICS (tests/atlas/tiny_atlas.py)."""

from math import inf, nan, sqrt

import duckdb
import pytest

from atlas.frames import fetch
from atlas.neuron_search import COLUMNS, Search, statement
from atlas.pages import count_rows, page_of
from schema.errors import AtlasError

Row = tuple[object, ...]


def found(con: duckdb.DuckDBPyConnection, search: Search, *columns: str) -> list[Row]:
    """The chosen columns of the answer, in any DuckDB."""
    return con.sql(f"SELECT {', '.join(columns)} FROM ({statement(search)})").fetchall()


def test_the_columns_are_the_numbers_of_a_neuron() -> None:
    assert list(COLUMNS) == [
        "layer", "neuron", "key_norm", "gate_norm", "value_norm", "key_value_cosine", "gate_value_cosine", "value_max_prob",
        "active_share", "n_positions", "n_active", "mean", "std", "min", "max",
    ]  # fmt: skip
    assert all(len(meaning) > 10 for meaning in COLUMNS.values())


def test_a_range_holds_both_its_ends(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    # norms 1 1 √2 2 | 2 1 √5 5 | 1 2 √2 5
    search = Search({"value_norm": (2.0, 2.3)}, order="value_norm", corpus=0)
    assert found(tiny_copy, search, "layer", "neuron", "value_top_token") == [(1, 2, " dog"), (0, 3, "cat"), (1, 0, " cat"), (2, 1, " sat")]
    upwards = Search({"value_norm": (2.0, 2.0)}, order="value_norm", descending=False, corpus=0)
    assert found(tiny_copy, upwards, "layer", "neuron") == [(0, 3), (1, 0), (2, 1)]
    assert found(tiny_copy, Search({"value_norm": (None, 1.0)}, corpus=0), "layer", "neuron") == [(0, 0), (0, 1), (1, 1), (2, 0)]
    assert found(tiny_copy, Search({"value_norm": (5.0, None)}, corpus=0), "layer", "neuron") == [(1, 3), (2, 3)]


def test_a_bound_is_kept_as_the_column_is(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    # 1.41421354 in a REAL column, 1.41421356 in Python
    assert found(tiny_copy, Search({"value_norm": (sqrt(2), sqrt(2))}, corpus=0), "layer", "neuron") == [(0, 2), (2, 2)]
    tiny_copy.execute("UPDATE neuron SET value_max_prob = 0.00002 WHERE layer = 1 AND neuron = 1")
    assert found(tiny_copy, Search({"value_max_prob": (0.00002, 0.00002)}, corpus=0), "layer", "neuron") == [(1, 1)]


def test_without_a_corpus_there_is_a_row_for_each(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    # means: 0.75 of L0N1 and 0.35 of the others over corpus 0, 0.625 of all over corpus 1
    search = Search({"mean": (0.5, None), "layer": (0, 0.5), "neuron": (None, 1)}, order="mean")
    assert found(tiny_copy, search, "corpus_id", "layer", "neuron", "mean") == [(0, 0, 1, 0.75), (1, 0, 0, 0.625), (1, 0, 1, 0.625)]


def test_the_active_share_is_of_the_corpus(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    # 3 of 10 positions of L0N1 and 6 of 10 of the others over corpus 0, 3 of 4 over corpus 1
    assert found(tiny_copy, Search({"active_share": (0.3, 0.5)}), "corpus_id", "layer", "neuron", "active_share") == [(0, 0, 1, 0.3)]
    assert len(found(tiny_copy, Search({"active_share": (0.6, 0.75)}), "layer")) == 11 + 12
    assert found(tiny_copy, Search({"active_share": (0.7, None)}, corpus=0), "layer") == []


def test_smallest_and_largest_coefficients(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    # over corpus 0: -1 to 4 for L0N1, -2 to 3 for the others; over corpus 1: -3 to 2.5
    assert found(tiny_copy, Search({"min": (-1.5, None)}), "corpus_id", "layer", "neuron") == [(0, 0, 1)]
    assert len(found(tiny_copy, Search({"max": (2.75, 3.5), "min": (-2, -2)}), "layer")) == 11


def test_a_null_lies_in_no_range_and_is_ordered_last(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE neuron SET gate_norm = NULL WHERE layer = 0")
    tiny_copy.execute("UPDATE neuron SET gate_norm = 3.0 WHERE layer = 2")
    layers = [layer for (layer,) in found(tiny_copy, Search({"neuron": (0, 0)}, order="gate_norm", corpus=0), "layer")]
    assert layers == [2, 1, 0]
    upwards = [layer for (layer,) in found(tiny_copy, Search({"neuron": (0, 0)}, order="gate_norm", descending=False, corpus=0), "layer")]
    assert upwards == [1, 2, 0]
    assert {layer for (layer,) in found(tiny_copy, Search({"gate_norm": (None, 10.0)}), "layer")} == {1, 2}


def test_neurons_that_were_not_swept_have_no_statistics_and_are_found_by_their_weights(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("DELETE FROM neuron_statistics WHERE corpus_id = 1")
    one = {"layer": (2.0, 2.0), "neuron": (3.0, 3.0)}
    assert found(tiny_copy, Search(one, corpus=1), "corpus_id", "layer", "neuron", "value_norm", "mean", "active_share") == [(None, 2, 3, 5.0, None, None)]
    assert found(tiny_copy, Search({**one, "mean": (None, 100.0)}, corpus=1), "layer") == []
    assert found(tiny_copy, Search(one), "corpus_id") == [(0,)]


def test_pages_hold_all_rows_in_order(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    sql = statement(Search(order="max"))
    assert count_rows(tiny_copy, sql) == 24
    pages = [fetch(tiny_copy, page_of(sql, 10, page)) for page in (1, 2, 3, 4)]
    assert [page.height for page in pages] == [10, 10, 4, 0]
    everything = [row for page in pages for row in page.select("corpus_id", "layer", "neuron").rows()]
    cells = [(layer, neuron) for layer in range(3) for neuron in range(4)]
    # 4 of L0N1, then 3 of the others, then 2.5 over corpus 1
    assert everything == [(0, 0, 1), *((0, *cell) for cell in cells if cell != (0, 1)), *((1, *cell) for cell in cells)]


def test_a_question_is_paged_in_its_own_order(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    # scores 6, 5 and 4 at rank 1 for neurons 0 (" cat") and 3 ("cat") of layers 2, 1 and 0; 4, 3 and 2 at rank 2 for neuron 2
    sql = "FROM neurons_promoting('cat')"
    assert count_rows(tiny_copy, sql) == 9
    rows = [row for page in (1, 2) for row in fetch(tiny_copy, page_of(sql, 5, page)).select("layer", "neuron", "score").rows()]
    assert rows == [(2, 0, 6.0), (2, 3, 6.0), (1, 0, 5.0), (1, 3, 5.0), (0, 0, 4.0), (0, 3, 4.0), (2, 2, 4.0), (1, 2, 3.0), (0, 2, 2.0)]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (Search({"value_nrm": (0, 1)}), "neurons have no number named 'value_nrm'; did you mean value_norm"),
        (Search(order="layer; DROP TABLE neuron"), "neurons have no number named 'layer; DROP TABLE neuron'"),
        (Search({"histogram": (0, 1)}), "neurons have no number named 'histogram'"),
        (Search({"zzz": (0, 1)}), "the names are layer, neuron, key_norm"),
        (Search({"mean": (2, 1)}), "mean from 2 to 1: this range is empty; give the smaller number first"),
        (Search({"mean": (nan, None)}), "mean from nan to None: a bound is a finite number"),
        (Search({"mean": (None, inf)}), "a bound is a finite number"),
    ],
)
def test_what_cannot_be_searched_is_said(search: Search, message: str) -> None:
    with pytest.raises(AtlasError) as error:
        statement(search)
    assert message in str(error.value)
