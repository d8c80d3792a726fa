"""Numbers of tables: one format in a column, thousands set apart where things are counted, lists rounded."""

import polars as pl

from tests.ui.conftest import read
from ui import blocks, listing, number_format


def test_all_of_a_column_have_the_same_decimals() -> None:
    frame = pl.DataFrame({"prob": [0.0001, 0.5], "tiny": [0.00009, 0.9], "score": [1234.5, 2.25], "none": [None, 1.0]})
    # four digits of the largest and one of the smallest; beyond six decimals powers of ten for all
    assert number_format.formats(frame) == {"prob": "%.4f", "tiny": "%.5f", "score": "%.0f", "none": "%.3f"}
    assert number_format.formats(pl.DataFrame({"prob": [0.00000001, 0.5], "zero": [0.0, float("inf")]})) == {"prob": "%.2e", "zero": "%.3f"}


def test_counts_have_their_thousands_apart_and_identifiers_and_years_have_not() -> None:
    frame = pl.DataFrame({"n_positions": [45819], "final_token_rank": [1200], "neuron": [1024], "position_id": [45819], "year": [1790], "word": ["a"]})
    assert number_format.formats(frame) == {"n_positions": "localized", "final_token_rank": "localized", "neuron": "%d", "position_id": "%d", "year": "%d"}
    assert number_format.cells(frame["n_positions"]) == ["45,819"]
    assert number_format.cells(frame["position_id"]) == ["45819"]
    assert number_format.cells(pl.Series("n_first", [None, 1], dtype=pl.Int64)) == ["–", "1"]


def test_a_table_of_links_has_its_counts_alike() -> None:
    rows = read(listing.table(pl.DataFrame({"n_texts": [45819]}), [None], "Rows", {}, None)).rows
    assert rows[-1][-1] == "45,819"


def test_a_table_of_links_has_the_first_300_rows() -> None:
    rows = read(listing.table(pl.DataFrame({"n_texts": range(301)}), [None] * 301, "Rows", {}, None)).rows
    assert [row[-1] for row in rows[1:]] == [str(n) for n in range(300)]


def test_lists_of_numbers_are_rounded_and_cut() -> None:
    frame = pl.DataFrame({"scores": [[0.12345678901234567, 1.0], None], "vector": pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2))})
    assert blocks.readable(frame)["scores"].to_list() == ["0.1235 · 1", None]
    assert blocks.readable(frame)["vector"].to_list() == ["1 · 2", "3 · 4"]
    long = number_format.format_lists(pl.Series("x", [list(range(25))]))
    assert long == ["0 · 1 · 2 · 3 · 4 · 5 · 6 · 7 · 8 · 9 · 10 · 11 · 12 · 13 · 14 · 15 · 16 · 17 · 18 · 19 … (25 numbers)"]


def test_one_row_is_one_row() -> None:
    assert [number_format.format_count(n, "row") for n in (0, 1, 2, 45819)] == ["0 rows", "1 row", "2 rows", "45,819 rows"]
    assert number_format.format_count(2, "relation and direction", "relations and directions") == "2 relations and directions"
