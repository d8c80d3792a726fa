"""Each number names its projection, and questions that show one quantity show one number."""

import duckdb
import pytest

from atlas.questions import Question, questions
from atlas.reads import relations

PROJECTIONS = ("raw", "lens", "final_norm", "frozen", "E·", "before the final norm", "û")

OF_STATES_AND_VALUES = {"logit_lens", "logit_lens_token", "prediction_change", "saturation", "elimination", "value_token", "key_agreement"}
"""Tables and views whose tokens, probabilities and ranks are another number under another projection."""

SAME = [
    ("layer_summary", "final_on_top_before", "geva2021_fig9", "final_on_top_share"),
    ("layer_summary", "n_first", "geva2021_fig9", "n_first"),
    ("layer_summary", "mean_final_prob_before", "geva2021_fig10", "mean_final_prob"),
    *(("layer_summary", share, "geva2021_fig11", share) for share in ("agreement", "residual", "ffn", "composition")),
    ("layer_summary", "dominant_share", "geva2022_dominant_share", "mean_share"),
    ("layer_summary", "dominant_share_without_first", "geva2022_dominant_share", "mean_share_without_first"),
    *(("layer_summary", n, "geva2022_events", n) for n in ("n_saturations", "n_eliminations", "n_input_eliminations", "n_other_eliminations")),
]
"""Question and column, beside another question and column of the same rows."""


def test_two_questions_show_one_number_of_one_quantity(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    # a position in whose first layer nothing is written has no share
    tiny_copy.execute("UPDATE layer_activity SET sub_update_norm_dominant = 0, sub_update_norm_total = 0 WHERE layer = 0 AND position_id = 8")

    def numbers(question: str, column: str, corpus: str) -> list[tuple]:
        found = tiny_copy.execute(f"SELECT layer, {column} FROM {question}(corpus := {corpus}) ORDER BY layer").fetchall()
        assert len(found) == 3
        return found

    for corpus in ("0", "1"):
        assert [same for same in SAME if numbers(*same[:2], corpus) != numbers(*same[2:], corpus)] == []


def test_shares_of_a_trace_that_is_older_than_the_raw_token_are_null_and_no_number(tiny_copy: duckdb.DuckDBPyConnection) -> None:
    tiny_copy.execute("UPDATE layer_activity SET raw_ffn_token_id = NULL")
    sql = "SELECT agreement, residual, ffn, composition, n_traced FROM layer_summary()"
    assert tiny_copy.execute(sql).fetchall() == [(None, None, None, None, 3)] * 3


@pytest.mark.parametrize("question", [q for q in questions().values() if not q.catalog and relations(q.sql) & OF_STATES_AND_VALUES], ids=lambda q: q.name)
def test_a_question_about_states_or_values_names_its_projection(question: Question) -> None:
    header = question.sql.partition("CREATE OR REPLACE")[0]
    assert any(name in header for name in PROJECTIONS)
