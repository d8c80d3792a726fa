"""The search page: by token, by words and by range, on the tiny atlas; what is expected is in tests/atlas/tiny_atlas.py."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from schema.open import store
from tests.ui.conftest import Visit, tables, text_of
from ui.search import ways as search


def rows(app: AppTest, *columns: str) -> list[tuple]:
    """The chosen columns of the one table."""
    (table,) = tables(app)
    return list(table[list(columns)].itertuples(index=False, name=None))


def test_nothing_is_looked_for_until_something_is_typed(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search")
    assert "Type a token." in text_of(app)
    assert not tables(app)
    app.text_input(key="term").set_value("cat").run()
    assert len(rows(app, "layer")) == 9


@pytest.mark.thorough
def test_values_that_promote_a_token(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search", term="sat")
    # rank 1 of neuron 1 of each layer, score 4 + layer
    assert rows(app, "layer", "neuron", "token", "score") == [(2, 1, "␣sat", 6.0), (1, 1, "␣sat", 5.0), (0, 1, "␣sat", 4.0)]
    assert "3 found." in text_of(app)
    assert "FROM neurons_promoting('sat', n := 1000000000)\nLIMIT 50 OFFSET 0" in text_of(app)


@pytest.mark.thorough
def test_values_that_suppress_a_token(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search", by="suppressed token", term="|")
    assert rows(app, "layer", "neuron", "score") == [(layer, neuron, -1.0) for layer in range(3) for neuron in range(4)]
    none = visit(tiny, "search", by="suppressed token", term="dog")
    assert "No value has this token among those that it suppresses most." in text_of(none)


@pytest.mark.thorough
def test_keys_triggered_at_and_before_a_token(visit: Visit, tiny: Path) -> None:
    # ' sat' is read at 3 and 9, where L0N1 alone has a largest coefficient, and follows 2 and 8
    app = visit(tiny, "search", by="trigger", term="sat", tail="largest")
    assert rows(app, "layer", "neuron", "n_triggers", "best_rank") == [(0, 1, 2, 1)]
    # and of the smallest, at 3 in all other keys at rank 2
    both = visit(tiny, "search", by="trigger", term="sat")
    assert rows(both, "layer", "neuron", "tail", "n_triggers", "best_rank")[:2] == [(0, 1, "max", 2, 1), (0, 0, "min", 1, 2)]
    before = visit(tiny, "search", by="token after", term="sat", corpus="0", tail="largest")
    # L0N1 has position 2 at rank 3; the others have 2 and 8 at ranks 1 and 2
    assert rows(before, "layer", "neuron", "n_triggers", "best_rank")[:2] == [(0, 0, 2, 1), (0, 2, 2, 1)]
    assert rows(before, "layer", "neuron", "n_triggers", "best_rank")[-1] == (0, 1, 1, 3)
    smallest = visit(tiny, "search", by="trigger", term="sat", tail="smallest", corpus="0")
    # the smallest of L0N1 are at 5, 0 and 1; of the others 5, 3 and 0
    assert len(rows(smallest, "layer")) == 11


@pytest.mark.thorough
def test_keys_with_words_in_their_triggers(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search", by="words", term="THE DOG", corpus="0")
    assert rows(app, "layer", "neuron", "text")[:2] == [(0, 0, "The dog"), (0, 1, "The dog sat")]
    assert "No key has a trigger with these words." in text_of(visit(tiny, "search", by="words", term="zebra"))


def test_a_token_that_is_none_is_said_with_those_near_it(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search", term="cats")
    assert "no token 'cats' in the vocabulary, with or without a leading space; near it: 'cat'" in text_of(app)
    assert not app.exception and not tables(app)


@pytest.mark.thorough
def test_neurons_by_range(visit: Visit, tiny: Path) -> None:
    # norms 1 1 √2 2 | 2 1 √5 5 | 1 2 √2 5
    link = {"by": "ranges", "columns": "value_norm", "value_norm_from": "2", "value_norm_to": "2.3", "order": "value_norm", "corpus": "0"}
    app = visit(tiny, "search", **link)
    assert rows(app, "layer", "neuron") == [(1, 2), (0, 3), (1, 0), (2, 1)]
    assert tables(app)[0].columns[:4].to_list() == ["layer", "neuron", "value_top_token", "value_norm"]
    app.toggle(key="descending").set_value(False).run()
    assert rows(app, "layer", "neuron") == [(0, 3), (1, 0), (2, 1), (1, 2)]
    app.number_input(key="value_norm_to").set_value(None).run()
    assert rows(app, "layer", "neuron") == [(0, 3), (1, 0), (2, 1), (1, 2), (1, 3), (2, 3)]
    app.number_input(key="value_norm_to").set_value(1.0).run()
    assert "value_norm from 2 to 1: this range is empty" in text_of(app)
    app.number_input(key="value_norm_from").set_value(None).run()
    app.multiselect(key="columns").set_value(["value_norm", "mean"]).run()
    app.number_input(key="mean_from").set_value(0.7).run()
    assert rows(app, "layer", "neuron", "mean") == [(0, 1, 0.75)]


def test_keys_by_how_often_they_fire(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search", by="density")
    assert "No key fires that often." in text_of(app)
    app.segmented_control(key="density").set_value("usual").run()
    assert rows(app, "corpus_id", "layer", "neuron", "density", "share") == [(0, 0, 1, "usual", 0.4)]
    assert "no density odd; available: dead, rare, usual, dense" in text_of(visit(tiny, "search", by="density", density="odd"))


@pytest.mark.thorough
def test_without_ranges_every_neuron_of_every_corpus_is_listed(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search", by="ranges", order="max")
    assert rows(app, "corpus_id", "layer", "neuron", "max")[:2] == [(0, 0, 1, 4.0), (0, 0, 0, 3.0)]
    assert "24 found" in text_of(app)


@pytest.mark.thorough
def test_pages_are_read_one_at_a_time_and_begin_anew_with_another_search(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ROWS", 10)
    app = visit(tiny, "search", by="ranges", order="max", results="3")
    # the last four of corpus 1, by layer and neuron
    assert rows(app, "corpus_id", "layer", "neuron") == [(1, 2, 0), (1, 2, 1), (1, 2, 2), (1, 2, 3)]
    assert "LIMIT 10 OFFSET 20" in text_of(app)
    app.selectbox(key="order").set_value("mean").run()
    assert rows(app, "corpus_id", "layer", "neuron")[0] == (0, 0, 1)
    assert "LIMIT 10 OFFSET 0" in text_of(app)
    assert "no page 4: there are 3" in text_of(visit(tiny, "search", by="ranges", results="4"))
    assert "no page x: there is one" in text_of(visit(tiny, "search", term="sat", results="x"))
    for strange in ("9" * 5_000, "²"):
        app = visit(tiny, "search", term="sat", results=strange)
        assert not app.exception and f"no page {strange[:40]}: there is one" in text_of(app)


def test_files_hold_every_page(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ROWS", 10)
    taken = []
    monkeypatch.setattr(search.blocks, "take_away", lambda answer, key, **_: taken.append(answer))
    visit(tiny, "search", by="ranges", results="3")
    (answer,) = taken
    assert (answer.frame.height, answer.full_answer.frame.height) == (4, 24)
    assert "LIMIT" in answer.sql and "LIMIT" not in answer.full_answer.sql


@pytest.mark.first_cases(5)
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"by": "colour"}, "no by colour; available: promoted token"),
        ({"by": "trigger", "term": "sat", "tail": "odd"}, "no tail odd; available: both, largest, smallest"),
        ({"by": "trigger", "term": "sat", "corpus": "7"}, "no corpus 7; available: 0: tales (all)"),
        ({"by": "ranges", "corpus": "7"}, "no corpus 7"),
        ({"by": "ranges", "columns": "colour"}, "no columns colour; available: layer"),
        ({"by": "ranges", "descending": "maybe"}, "no descending maybe; it is true or false"),
        ({"by": "ranges", "order": "colour"}, "no order colour; available: layer"),
        ({"by": "ranges", "columns": "mean", "mean_from": "much"}, "the address asks for mean_from much, which is not a number"),
        ({"by": "ranges", "columns": "mean", "mean_to": "nan"}, "the address asks for mean_to nan, which is not a number"),
    ],
)
def test_an_address_that_asks_for_what_there_is_not_is_said(visit: Visit, tiny: Path, query: dict[str, str], said: str) -> None:
    app = visit(tiny, "search", **query)
    assert said in text_of(app)
    assert not app.exception and not tables(app)


def test_without_a_sweep_the_weights_can_be_searched_and_the_rest_says_what_to_run(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    con.execute("DELETE FROM neuron_statistics; DELETE FROM trigger; DELETE FROM run WHERE kind = 'sweep'")
    con.close()
    assert "atlas ingest" in text_of(visit(tiny, "search", by="trigger", term="sat"))
    assert "No text has been swept yet" in text_of(visit(tiny, "search", by="density"))
    assert len(rows(visit(tiny, "search", term="sat"), "layer")) == 3
    assert len(rows(visit(tiny, "search", by="ranges"), "layer")) == 12


@pytest.mark.thorough
def test_tokens_that_mean_something_elsewhere_are_looked_for_and_shown_as_they_are(visit: Visit, nasty: Path) -> None:
    assert rows(visit(nasty, "search", term='"q",'), "layer", "neuron", "token") == [(0, 0, '␣"q",')]
    assert rows(visit(nasty, "search", term="\t"), "layer", "neuron", "token") == [(0, 0, "→")]
    assert rows(visit(nasty, "search", by="words", term=",\t漢🙂"), "layer", "neuron", "text") == [(0, 0, '=1+1 "q",→漢🙂')]
    assert 'no token "\'); DROP TABLE neuron; --" in the vocabulary' in text_of(visit(nasty, "search", term="'); DROP TABLE neuron; --"))
