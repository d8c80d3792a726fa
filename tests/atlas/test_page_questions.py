"""What the tiny atlas does not have: texts that differ only after the trigger, coefficients known from traces, bins of unequal coefficients."""

import duckdb


def test_texts_that_differ_only_after_the_trigger_are_folded(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    for rank, position in ((1, 1), (2, 7)):
        tiny_copy.execute("UPDATE trigger SET position_id = ? WHERE corpus_id = 0 AND layer = 0 AND neuron = 1 AND tail = 'max' AND rank = ?", [position, rank])
    found = tiny_copy.execute("SELECT n_folded, tokens, peak, position_id FROM trigger_contexts(0, 1, width := 2)").fetchall()
    assert found == [(1, ["<s>", "The", " cat"], 1, 1), (0, ["é", " cat", " [red]"], 1, 101)]


def test_the_exact_coefficient_is_taken_before_the_rounded_one(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """Of positions 6 to 8, before the second trigger, one is traced."""
    tiny_copy.execute("UPDATE trigger SET preceding = [-127, 64, 32], preceding_scale = 0.5 WHERE layer = 0 AND neuron = 1 AND position_id = 9")
    tiny_copy.execute("INSERT INTO coefficient VALUES (2, 0, 1, 9.0, 9.0), (8, 0, 1, 0.125, 0.125), (8, 1, 1, 7.0, 7.0)")
    found = tiny_copy.execute("SELECT coefficients FROM trigger_contexts(0, 1, n := 2)").fetchall()
    assert found == [([0.0, 0.0, 0.5, 4.0, 0.0, -1.0],), ([-63.5, 32.0, 0.125, 4.0],)]


def test_a_coefficient_that_the_atlas_does_not_hold_is_null(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE trigger SET preceding = NULL, preceding_scale = NULL")
    found = tiny_copy.execute("SELECT coefficients FROM trigger_contexts(0, 1, n := 2)").fetchall()
    assert found == [([0.0, 0.0, 0.5, 4.0, None, -1.0],), ([None, None, None, 4.0],)]


def test_samples_are_binned_by_coefficient(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    for position, coefficient in ((2, 1.0), (8, 5.0), (101, 3.0)):
        tiny_copy.execute("UPDATE coefficient SET coefficient = ? WHERE position_id = ? AND layer = 0 AND neuron = 2", [coefficient, position])
    found = tiny_copy.execute("SELECT bin, lowest, highest, n_positions, coefficient, position_id FROM coefficient_samples(0, 2, n_bins := 2)").fetchall()
    assert found == [(1, 3.0, 5.0, 2, 5.0, 8), (1, 3.0, 5.0, 2, 3.0, 101), (2, 1.0, 1.0, 1, 1.0, 2)]


def test_a_token_taken_down_has_its_probability_where_it_stays_a_candidate(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute(
        "INSERT INTO logit_lens_token VALUES (8, 1, 'resid_post', 7, 5, 0.03125), (8, 1, 'resid_mid', 7, 5, 0.5), (8, 2, 'resid_post', 3, 5, 0.25)"
    )
    found = tiny_copy.execute("SELECT layer, prob_after FROM position_events(8)").fetchall()
    assert found == [(1, 0.03125), (2, None)]


def test_the_value_that_suppresses_most_comes_first(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE value_token SET score = -5.0 WHERE layer = 2 AND neuron = 1 AND direction = 'suppressed' AND rank = 2")
    assert tiny_copy.execute("SELECT layer, neuron, score FROM neurons_suppressing('|', n := 2)").fetchall() == [(2, 1, -5.0), (0, 0, -1.0)]


def test_whether_a_prediction_is_right_is_unknown_where_the_document_ends(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE position SET next_token_id = NULL WHERE position_id = 101")
    assert tiny_copy.execute("SELECT is_right FROM traced_positions()").fetchall() == [(True,), (False,), (None,)]


def test_all_of_a_long_text_is_found_and_no_more_than_80_characters_before(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """Position 101 is set 85 characters after the sequence's first: what stands in the first 5 is out of its reach, but not the sixth."""
    tiny_copy.execute("UPDATE document SET text = 'abcdéF' || repeat('.', 79) || ' cat' WHERE document_id = 100")
    tiny_copy.execute("UPDATE position SET char_start = 85, char_end = 89 WHERE position_id >= 101")
    found = [
        tiny_copy.execute("SELECT count(*) FROM neurons_with_words(?, tail := 'max', corpus := 1) WHERE n_triggers = 2", [w]).fetchone()
        for w in ("f.", "éf", ". CAT")
    ]
    assert found == [(12,), (0,), (12,)]


def test_words_have_no_wildcards(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    """The trigger ' cat' stands before ' c_t' in one sequence, and is not found."""
    tiny_copy.execute("UPDATE document SET text = replace(text, 'cat sat', 'cat c_t') WHERE document_id = 0")
    found = tiny_copy.execute("SELECT layer, neuron, n_triggers, text FROM neurons_with_words('C_T', tail := 'max', corpus := 0)").fetchall()
    assert found == [(0, 1, 1, "The cat c_t")]
