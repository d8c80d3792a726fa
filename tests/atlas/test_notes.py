"""What goes with rows: that they average over few, or are fewer than were asked for; and what DuckDB's words on a statement do not say."""

import time

import polars as pl
import pytest

import atlas
from atlas.notes import note_small_counts, notes
from atlas.questions import questions
from atlas.typed.hints import hint
from schema.errors import AtlasError, QueryRefused


def test_rows_that_average_over_few_are_counted() -> None:
    q = questions()["geva2021_fig9"]
    assert (
        note_small_counts(q, pl.DataFrame({"n_positions": [29, 30, 3, 0, None]}))
        == "n_positions is under 30 in 2 of 5 rows: these rows average over few cases."
    )
    assert note_small_counts(q, pl.DataFrame({"n_positions": [30, 4000]})) == ""
    assert note_small_counts(questions()["value_tokens"], pl.DataFrame({"rank": [1]})) == ""


OF_A_WHOLE = {
    "dominant_sub_updates", "elhage2021_copying", "head_tokens", "neuron_readers", "neuron_writers", "position_tokens", "prediction_neurons",
    "prediction_sub_updates",
}  # fmt: skip
"""Their shares are of all that one thing has, and not of what was seen of many."""


@pytest.mark.parametrize("name", [q.name for q in questions().values() if any(word in q.columns for word in ("share", "mean_score", "agreement_rate"))])
def test_a_question_of_shares_and_means_says_over_how_many(name: str) -> None:
    q = questions()[name]
    assert q.n in q.columns or name in OF_A_WHOLE


def test_the_column_that_counts_is_one_of_the_answer() -> None:
    counting = {name: q for name, q in questions().items() if q.n}
    assert len(counting) > 25
    assert [name for name, q in counting.items() if q.n not in q.columns] == []


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("top_triggers", {"layer": 0, "neuron": 1, "n": 50, "corpus": 0}, ["3 of the 50 requested: n is how many, at most as many as ingest kept per key."]),
        ("top_triggers", {"layer": 0, "neuron": 1, "n": 2}, []),
        ("top_triggers", {"layer": 0, "neuron": 1, "n": 25}, []),
        ("value_tokens", {"layer": 0, "neuron": 1, "n": 40}, ["2 of the 40 requested: n is how many of each direction; an atlas holds 30."]),
        ("traced_positions", {"n": 50}, []),
    ],
)
def test_fewer_rows_than_asked_for_are_said(a: atlas.Atlas, name: str, arguments: dict[str, object], said: list[str]) -> None:
    assert notes(questions()[name], a.ask(name, **arguments), arguments) == said


def test_a_column_that_a_question_has_is_said(a: atlas.Atlas) -> None:
    with pytest.raises(AtlasError, match=r"It is a column of the questions value_tokens\(layer, neuron, "):
        a.sql("SELECT v.token FROM value_token AS v")
    with pytest.raises(AtlasError, match=r"It is a column of the questions neuron_card\(layer, neuron, corpus := NULL\), layer_summary"):
        a.sql("SELECT n.active_share FROM neuron AS n")


def test_a_question_without_its_arguments_is_said(a: atlas.Atlas) -> None:
    with pytest.raises(
        AtlasError, match=r"It is a question, whose arguments stand in parentheses: FROM top_triggers\(layer, neuron, n := 25, corpus := NULL\)$"
    ):
        a.sql("SELECT * FROM Top_Triggers")


@pytest.mark.thorough
def test_a_question_that_is_nearly_called_so_is_said(a: atlas.Atlas) -> None:
    for asked in ("top_trigger", "TopTriggers"):
        with pytest.raises(QueryRefused, match=rf"refused: the function {asked.lower()}\.[^\n]+\nNo question has this name; did you mean top_triggers\?$"):
            a.sql(f"FROM {asked}(0, 1)", own_process=True)
    with pytest.raises(QueryRefused, match=r"with functions that only compute$"):
        a.sql("FROM read_text('top_triggers')")


@pytest.mark.parametrize("given", ["money", '"money"', '" money"', "token := money", '"mon\'ey"'])
def test_a_text_without_its_quotes_is_said(a: atlas.Atlas, given: str) -> None:
    text = given.removeprefix("token := ").strip('"').replace("'", "''")
    with pytest.raises(AtlasError, match=f"\nWrite a text in single quotes: '{text}'. Without quotes, or in double quotes, it is the name of a column.$"):
        a.sql(f"FROM neurons_promoting({given})")


@pytest.mark.parametrize("sql", ["SELECT money FROM neurons_promoting(' money ')", "FROM top_triggers(0, money)", "SELECT lower(money) FROM model"])
def test_a_column_that_is_none_is_no_text(a: atlas.Atlas, sql: str) -> None:
    with pytest.raises(AtlasError, match="money") as caught:
        a.sql(sql)
    assert "single quotes" not in str(caught.value)


def test_numbers_of_16_bits_are_said(a: atlas.Atlas) -> None:
    with pytest.raises(AtlasError, match="write layer::INTEGER"):
        a.sql("SELECT max((n.layer + 22)::SMALLINT * 1536 + n.neuron) FROM neuron AS n")
    assert a.sql("SELECT max((n.layer + 22)::INTEGER * 1536 + n.neuron) FROM neuron AS n").item() == 24 * 1536 + 3


def test_other_errors_are_left_as_they_are() -> None:
    assert hint("SELECT x", "DuckDB: Catalog Error: no such thing") == ""
    assert hint("SELECT x FROM neuron", 'Binder Error: Referenced column "no_such_column" not found') == ""


@pytest.mark.parametrize("rest", [" JOIN ".join(f"t{i}" for i in range(80_000)), "ab" * 400_000, " " * 900_000, "(" * 900_000, "token(" * 150_000])
def test_a_stranger_s_statement_takes_no_time_of_the_server_s_for_a_hint(rest: str) -> None:
    start = time.process_time()
    for column in ("layer", "no_such"):
        hint(f"SELECT {column} FROM {rest}", f'Binder Error: Referenced column "{column}" not found in FROM clause!')
    assert time.process_time() - start < 2
