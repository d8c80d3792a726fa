"""A question as SQL that people keep: it gives the same rows as the question."""

import pytest

import atlas
from atlas.arguments import bind
from atlas.questions import question
from atlas.statement import argument, literal, statement
from schema.errors import AtlasError


@pytest.mark.parametrize(
    ("name", "arguments", "written"),
    [
        ("top_triggers", {"layer": 0, "neuron": 1}, "FROM top_triggers(0, 1)"),
        ("top_triggers", {"layer": 0, "neuron": 1, "n": 2, "corpus": 1}, "FROM top_triggers(0, 1, n := 2, corpus := 1)"),
        ("neurons_promoting", {"token": "it's"}, "FROM neurons_promoting('it''s')"),
        ("token_context", {"position_ids": [3, 101]}, "FROM token_context([3, 101])"),
        ("layer_summary", {}, "FROM layer_summary()"),
        ("annotated_patterns", {"subject": "key"}, "FROM annotations.annotated_patterns(subject := 'key')"),
        ("geva2022_extreme", {"threshold": 3.5}, "FROM geva2022_extreme(threshold := 3.5::DOUBLE)"),
    ],
)
def test_a_statement_names_what_is_not_the_default(name: str, arguments: dict[str, object], written: str) -> None:
    assert statement(question(name), bind(question(name), (), arguments)) == written


@pytest.mark.parametrize(("name", "arguments"), [("top_triggers", {"layer": 1, "neuron": 2, "n": 2}), ("token_context", {"position_ids": [3, 101]})])
def test_a_statement_gives_the_rows_of_its_question(a: atlas.Atlas, name: str, arguments: dict[str, object]) -> None:
    asked = a.ask(name, **arguments)
    assert asked.height > 0
    assert a.sql(statement(question(name), bind(question(name), (), arguments))).equals(asked)


@pytest.mark.parametrize("value", [None, True, 3, -2.5, 1e-300, 'it\'s "odd"; -- \\ é 🙂\n', [1, 2], ["a'b", None]])
def test_a_literal_is_read_back_as_its_value(a: atlas.Atlas, value: object) -> None:
    assert a.con.execute(f"SELECT {literal(value)}").fetchall() == [(value,)]


@pytest.mark.parametrize("value", ["\0", "a\0'; DROP TABLE neuron; --\0\0", "it's"])
def test_a_text_with_nul_is_read_back_too(a: atlas.Atlas, value: str) -> None:
    assert a.con.execute(f"SELECT {argument(value)}").fetchall() == [(value,)]


def test_nul_is_looked_for_as_every_text_is(a: atlas.Atlas) -> None:
    assert a.ask("neurons_with_words", words="\0").height == 0
    with pytest.raises(AtlasError, match="no token"):
        a.ask("neurons_promoting", token="a\0")


def test_a_number_that_cannot_be_written_is_refused_in_words(a: atlas.Atlas) -> None:
    with pytest.raises(AtlasError, match="n must be .* of at most 127 bits, and the given number has more"):
        a.ask("top_triggers", layer=0, neuron=1, n=10**10000)
