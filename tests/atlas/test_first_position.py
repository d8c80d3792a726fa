"""Figures with and without the first position of a sequence: the tiny atlas traces none, so one is made of a position that it traces."""

import duckdb
import pytest


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple]:
    return con.execute(sql).fetchall()


@pytest.fixture
def con(tiny_copy: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Position 8 is the first of its sequence, and so is 2: both of corpus 0."""
    tiny_copy.execute('UPDATE position SET "index" = 0 WHERE position_id IN (2, 8)')
    return tiny_copy


def test_traced_positions_at_index_0_are_left_out_under_another_name(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE run SET corpus_id = 0 WHERE kind = 'trace'")
    con.execute('UPDATE position SET "index" = 2 WHERE position_id = 2')
    # the final prediction leads at resid_mid of layer 0 at position 8 alone, of layer 2 at 101 alone
    assert rows(con, "SELECT layer, final_on_top_share, n_positions, n_first, final_on_top_share_without_first FROM geva2021_fig9()") == [
        (0, pytest.approx(1 / 3), 3, 1, 0.0),
        (1, pytest.approx(1 / 3), 3, 1, 0.0),
        (2, pytest.approx(1 / 3), 3, 1, 0.5),
    ]
    # probabilities 0.125, 0.5, 0.25 of layer 0 at positions 2, 8, 101
    assert rows(con, "SELECT mean_final_prob, mean_final_prob_without_first FROM geva2021_fig10() WHERE layer = 0") == [(0.875 / 3, 0.1875)]


def test_activity_and_dominance_are_given_without_index_0(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE run SET corpus_id = 0 WHERE kind = 'trace'")
    con.execute("UPDATE layer_activity SET n_active = 1, sub_update_norm_dominant = sub_update_norm_total WHERE position_id = 8")
    con.execute("UPDATE layer_activity SET n_active = 3, sub_update_norm_dominant = sub_update_norm_total / 2 WHERE position_id <> 8")
    con.execute('UPDATE position SET "index" = 2 WHERE position_id = 2')
    assert rows(con, "SELECT active_share, n_first, active_share_without_first FROM geva2021_fig7() WHERE layer = 1") == [(pytest.approx(7 / 12), 1, 0.75)]
    share = [(pytest.approx(2 / 3), 1, pytest.approx(0.5))]
    assert rows(con, "SELECT mean_share, n_first, mean_share_without_first FROM geva2022_dominant_share() WHERE layer = 1") == share
    assert rows(con, "SELECT dominant_share, n_first, dominant_share_without_first FROM layer_summary() WHERE layer = 1") == share


def test_keys_whose_top_trigger_is_at_index_0_are_left_out_under_another_name(con: duckdb.DuckDBPyConnection) -> None:
    # in corpus 0 all keys but L0N1 have their top trigger at position 2; of layer 1 one agrees
    found = rows(con, "SELECT layer, agreement_rate, n_keys, n_first, agreement_rate_without_first FROM geva2021_fig4(corpus := 0)")
    assert found == [(0, 0.0, 4, 3, 0.0), (1, 0.25, 4, 4, None), (2, 0.25, 4, 4, None)]
