"""Needs of questions are derived from the tables that they require, and given in a header only where that says something else."""

import pytest

from atlas.papers.needs import NEEDS, derive_needs
from atlas.questions import header, question, questions
from atlas.reads import NAMED, REQUIRED, relations
from tests.atlas.papers.rows import ITEMS

TRACE = "fig7 fig8 fig8_agreeing fig9 fig10 fig11 last_layer"

DERIVED = {
    ("sweep",): "geva2021_fig4 geva2021_fig6 geva2021_top_values geva2021_table2",
    ("sweep", "removal"): "geva2021_fig3",
    ("sweep", "next_token_rank"): "geva2021_fig5",
    ("trace",): " ".join(["geva2022_fig3 promotion_vs_elimination elimination_events", *(f"geva2021_{name}" for name in TRACE.split())]),
    ("trace", "value_cluster"): "geva2022_extreme_clusters geva2022_value_groups",
    ("circuit",): "elhage2021_copying copying_heads composition_edges induction_circuits",
    ("circuit", "head_probe"): "elhage2021_induction",
    ("tree_probe",): "parse_layers",
    ("head_relation",): "head_relations",
    ("test",): "test_suites",
    ("prediction",): "perplexity calibration abstention surprising_positions",
    ("prediction", "ngram"): "model_against_ngram",
    ("keys", "prediction", "retrieval"): "khandelwal2020_fig4 knn_result knn_curve knn_copies",
}
"""Needs → questions, of which no header gives them."""

GIVEN = {name: needs for name, q in questions().items() if (needs := dict(header(q.sql)).get("needs"))}


@pytest.mark.parametrize(("name", "needs"), [(name, needs) for needs, names in DERIVED.items() for name in names.split()])
def test_needs_are_the_passes_behind_the_tables_that_a_question_requires(name: str, needs: tuple[str, ...]) -> None:
    assert name not in GIVEN
    assert derive_needs(question(name).sql) == needs


@pytest.mark.parametrize("name", GIVEN)
def test_a_header_gives_needs_that_tables_do_not_tell(name: str) -> None:
    sql = question(name).sql
    assert derive_needs(sql) == tuple(GIVEN[name].split(", "))
    assert set(derive_needs(sql)) <= set(NEEDS)
    assert derive_needs(sql.replace("-- needs:", "-- unread:")) != derive_needs(sql)


def test_an_item_adds_what_its_question_cannot_tell() -> None:
    assert ITEMS["geva2021_fig8"].needs == ("trace", "raw tops")
    assert ITEMS["geva2021_fig8_final_norm"].needs == ("trace",)
    assert ITEMS["geva2022_table6"].needs == ("trace", "value_cluster")
    assert ITEMS["khandelwal2020_fig7"].needs == ("keys", "prediction", "ngram", "retrieval")


def test_what_is_joined_from_the_left_in_full_or_to_be_left_out_is_not_required() -> None:
    joined = "LEFT JOIN probe AS p ON true FULL JOIN word AS w ON true ANTI JOIN removal AS r ON true INNER JOIN trace AS t ON true"
    sql = f"SELECT 1 FROM head AS h {joined}"
    assert relations(sql, REQUIRED) == {"head", "trace"}
    assert relations(sql, NAMED) == {"head", "probe", "word", "removal", "trace"}
