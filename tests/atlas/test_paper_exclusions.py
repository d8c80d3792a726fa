"""What the figures of the papers leave out, and why: the tiny atlas changed so that there is something to leave out."""

import duckdb
import pytest

from atlas.papers.captions import setting_of


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple]:
    return con.execute(sql).fetchall()


SWITCH_OFF = "UPDATE trigger SET coefficient = 0 WHERE corpus_id = 0 AND layer = 1 AND neuron = 1 AND tail = 'max'"
"""L1N1, which agrees, fires nowhere in corpus 0."""


def test_a_key_that_no_text_switches_on_has_no_trigger(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute(SWITCH_OFF)
    assert rows(tiny_copy, "SELECT agreement_rate, n_keys, n_left_out FROM geva2021_fig4(corpus := 0) WHERE layer = 1") == [(0.0, 3, 1)]
    # ranks 4, 7, 8 are left of 4, 1, 7, 8
    assert rows(tiny_copy, "SELECT min_rank, median, n_keys FROM geva2021_fig5(corpus := 0) WHERE layer = 1") == [(4, 7.0, 3)]
    assert rows(tiny_copy, "SELECT n_keys, agreement_rate FROM geva2021_fig6(corpus := 0) WHERE n_keys > 0") == [(11, pytest.approx(1 / 11))]
    found = rows(tiny_copy, "SELECT n_triggers, precision_at_50 FROM geva2021_top_values(corpus := 0) WHERE layer = 1 AND neuron = 1")
    assert found == [(0, None)]
    assert (1, 1) not in rows(tiny_copy, "SELECT layer, neuron FROM geva2021_table2(corpus := 0)")


def test_a_key_with_fewer_triggers_than_others_is_not_in_table_2(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """Two of two triggers followed would be the first row."""
    tiny_copy.execute("UPDATE trigger SET coefficient = 0 WHERE corpus_id = 0 AND layer = 1 AND neuron = 1 AND tail = 'max' AND rank = 3")
    assert rows(tiny_copy, "SELECT n_triggers, precision_at_50 FROM value_precision WHERE corpus_id = 0 AND layer = 1 AND neuron = 1") == [(2, 1.0)]
    found = rows(tiny_copy, "SELECT layer, neuron, n_triggers FROM geva2021_table2(corpus := 0)")
    assert len(found) == 11 and {n for *_, n in found} == {3}


def test_a_trigger_that_ends_its_document_agrees_with_nothing_and_is_not_judged(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """Position 9 is the last of its document: of corpus 0, only L0N1 has it among its triggers; make it the first."""
    tiny_copy.execute("UPDATE trigger SET rank = 4 - rank WHERE corpus_id = 0 AND layer = 0 AND neuron = 1 AND tail = 'max' AND rank <> 2")
    tiny_copy.execute("UPDATE trigger SET position_id = 9 WHERE corpus_id = 0 AND layer = 0 AND neuron = 1 AND tail = 'max' AND rank = 1")
    assert rows(tiny_copy, "SELECT n_keys, n_left_out FROM geva2021_fig4(corpus := 0) WHERE layer = 0") == [(3, 1)]


def test_a_coefficient_of_zero_has_no_relative_change(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """Of layer 2's two triggers the first is left: no change, -0.5, no change."""
    tiny_copy.execute("UPDATE trigger SET coefficient = 0 WHERE corpus_id = 0 AND layer = 2 AND neuron = 0 AND tail = 'max' AND rank >= 2")
    found = rows(tiny_copy, "SELECT removed, mean_change, n_keys, n_triggers FROM geva2021_fig3(corpus := 0) WHERE layer = 2")
    assert found == [("first", 0.0, 1, 1), ("last", -0.5, 1, 1), ("random", 0.0, 1, 1)]


def test_triggers_that_no_key_has_read_again_are_left_out_too(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """The third rank of all keys: of six triggers in layer 0 four are left, of three in layer 2 two."""
    tiny_copy.execute("DELETE FROM removal WHERE rank = 3")
    assert rows(tiny_copy, "SELECT DISTINCT layer, n_triggers, n_left_out FROM geva2021_fig3(corpus := 0) ORDER BY ALL") == [(0, 4, 2), (2, 2, 1)]


def test_bos_is_no_token_of_a_short_prefix(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """The agreeing cases are two at position 2 (after BOS) and one at 8: with index 4 a prefix has four tokens beside BOS, with 5 five."""
    shares = "SELECT agreeing_short_share, agreeing_stop_word_share FROM geva2021_fig8_agreeing(projection := 'final_norm', corpus := 0) WHERE site = 'ffn_out'"
    tiny_copy.execute("UPDATE position SET index = 4 WHERE position_id = 2")
    tiny_copy.execute("UPDATE token SET is_stop_word = true WHERE text = ' dog'")
    assert rows(tiny_copy, shares) == [(1.0, pytest.approx(1 / 3))]
    tiny_copy.execute("UPDATE position SET index = 5 WHERE position_id = 2")
    assert rows(tiny_copy, shares) == [(pytest.approx(1 / 3), pytest.approx(1 / 3))]
    # without BOS the first token counts
    tiny_copy.execute("UPDATE position SET index = 4 WHERE position_id = 2")
    tiny_copy.execute("UPDATE token SET is_special = false WHERE token_id = 0")
    assert rows(tiny_copy, shares) == [(pytest.approx(1 / 3), pytest.approx(1 / 3))]


def test_a_position_where_a_layer_adds_nothing_has_no_dominant_share(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE run SET corpus_id = 0 WHERE kind = 'trace'")
    tiny_copy.execute("UPDATE layer_activity SET sub_update_norm_total = 0, sub_update_norm_dominant = 0 WHERE position_id = 2 AND layer = 0")
    tiny_copy.execute("UPDATE layer_activity SET sub_update_norm_total = 4, sub_update_norm_dominant = 1 WHERE position_id = 8 AND layer = 0")
    tiny_copy.execute("UPDATE layer_activity SET sub_update_norm_total = 4, sub_update_norm_dominant = 3 WHERE position_id = 101 AND layer = 0")
    found = rows(tiny_copy, "SELECT mean_share, min_share, max_share, n_positions FROM geva2022_dominant_share() WHERE layer = 0")
    assert found == [(0.5, 0.25, 0.75, 2)]


@pytest.mark.parametrize(
    ("activation", "is_gated", "means"),
    [
        ("relu", False, "coefficient > 0: on or off, as in the paper"),
        ("relu", True, "coefficient > 0: the sign alone; the paper's rule is for an ungated ReLU"),
        ("gelu_new", False, "coefficient > 0: the sign alone; the paper's rule is for an ungated ReLU"),
    ],
)
def test_active_is_the_papers_only_for_an_ungated_relu(tiny_copy: duckdb.DuckDBPyConnection, activation: str, is_gated: bool, means: str) -> None:
    tiny_copy.execute("UPDATE model SET activation = ?, is_gated = ?", [activation, is_gated])
    for name in ("geva2021_fig7", "geva2021_fig8"):
        assert rows(tiny_copy, f"SELECT DISTINCT activation, is_gated, active_means FROM {name}(corpus := 0)") == [(activation, is_gated, means)]


def test_a_caption_says_where_the_sweep_is_not_the_papers(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    before = setting_of(tiny_copy, None)
    assert "Text: tales (all), 10 positions; more (test), 4 positions." in before
    tiny_copy.execute("UPDATE run SET settings = '{\"skip_first\": 1}' WHERE kind = 'sweep' AND corpus_id = 0")
    said = ", triggers and statistics from index 1 of each sequence on; more"
    assert setting_of(tiny_copy, None) == before.replace("; more", said)
    tiny_copy.execute("UPDATE run SET settings = '{\"distinct\": 16}' WHERE kind = 'sweep' AND corpus_id = 0")
    assert setting_of(tiny_copy, None) == before.replace("; more", ", of triggers with the same last 16 tokens the best alone; more")
