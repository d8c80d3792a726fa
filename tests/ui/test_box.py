"""The one box, on the tiny atlas: what words may mean, neurons once each with what they do, and where a word is that a group lacks."""

import base64
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from atlas.address import Head, Neuron
from schema.open import store
from tests.ui.conftest import Visit, htmls, read, text_of
from ui import previews
from ui.search.box import SearchInput, parse


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        (" l20n100 ", SearchInput(Neuron(20, 100), None, "l20n100")),
        ("L7H3", SearchInput(Head(7, 3), None, "L7H3")),
        ("136", SearchInput(None, 136, "136")),
        ("the dog", SearchInput(None, None, "the dog")),
        (" ", SearchInput(None, None, " ")),
        ("x" * 500, SearchInput(None, None, "x" * 200)),
    ],
)
def test_what_is_typed_may_be_a_component_a_position_and_is_always_text(typed: str, asked: SearchInput) -> None:
    assert parse(typed) == asked


def headings(app: AppTest) -> list[str]:
    return ["".join(read(html).texts) for html in htmls(app) if html.startswith("<h2>")]


def groups(app: AppTest) -> dict[str, list[str]]:
    """Heading → its rows as HTML."""
    assert not app.exception and not app.error
    shown = [html.split('<div class="row"')[1:] for html in htmls(app) if html.startswith('<div class="previews"')]
    return dict(zip(headings(app), shown, strict=False))


def said(row: str) -> str:
    return "".join(read(row).texts)


@pytest.mark.thorough
def test_a_token_is_answered_in_groups_and_no_neuron_is_repeated(visit: Visit, tiny: Path) -> None:
    found = {heading: re.findall(r"at=(L\d+N\d+)", "".join(rows)) for heading, rows in groups(visit(tiny, "search", q="sat")).items()}
    # neuron 1 of each layer promotes ' sat', score 4 + layer
    assert found["Values that promote sat"] == ["L2N1", "L1N1", "L0N1"]
    assert found["Keys whose triggers end in sat"][0] == "L0N1"
    for addresses in found.values():
        assert len(set(addresses)) == len(addresses) > 0


@pytest.mark.thorough
def test_a_row_says_what_the_neuron_does(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search", q="sat")
    row = next(html for html in htmls(app) if html.startswith('<div class="previews"')).split('<div class="row"')[3]
    found = read(row)
    # of L0N1: it promotes ' sat' and ' *'; its largest coefficient is 4, at ' sat' of position 3
    text = "".join(found.texts)
    assert "L0N1" in text and "␣sat␣*" in text and "<s>The cat sat +4.000" in text
    (image,) = [attributes for tag, attributes in found.tags if tag == "img"]
    drawn = base64.b64decode(str(image["src"]).partition("base64,")[2]).decode()
    # seven bins hold its 14 coefficients; the fullest, of six zeros, is drawn to the top
    assert drawn.count("<rect") == 7 + 1
    assert "<rect x='34' y='0.0' width='1' height='22.0'/>" in drawn


@pytest.mark.thorough
def test_an_empty_group_says_where_the_word_is(visit: Visit, tiny: Path) -> None:
    others = "keys whose triggers end in it, keys whose triggers are followed by it, keys whose triggers' texts have it"
    assert f"None. It is found under: {others}." in text_of(visit(tiny, "search", q="The"))
    app = visit(tiny, "search", q="the dog")
    assert "As a token: no token 'the dog' in the vocabulary" in text_of(app)
    assert headings(app) == ["Keys whose triggers' texts have the dog"]
    # nothing but the position is called so
    assert "None. It is found under: position." in text_of(visit(tiny, "search", q="8"))
    assert text_of(visit(tiny, "search", q="zebra")).splitlines().count("None.") == 1


def test_the_text_of_a_row_is_the_one_that_matched_with_its_tail(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    # where neurons other than L0N1 have their smallest coefficient, their values suppress what they promote
    con.execute("UPDATE trigger SET coefficient = -9 WHERE tail = 'min' AND rank = 1")
    con.close()
    app = visit(tiny, "search", q="sat")
    assert "What the atlas has of sat" in text_of(app)
    promoting, ending, followed, having = groups(app).values()
    assert [re.findall(r"L\dN\d", said(row)) for row in promoting] == [["L2N1"], ["L1N1"], ["L0N1"]]
    assert "␣sat: rank 1, +6.00" in said(promoting[0]) and "<s>The cat +3.000 largest coefficient · next  sat" in said(promoting[0])
    # at 3 ' sat' is read: that is rank 2 of the smallest of all but L0N1
    assert "L0N1" in said(ending[0]) and "2 of the 6 largest" in said(ending[0]) and "<s>The cat sat +4.000 largest coefficient · next ." in said(ending[0])
    assert "1 of the 6 smallest" in said(ending[1]) and "<s>The cat sat −1.500 rank 2 of the smallest coefficients · next ." in said(ending[1])
    assert "<s>The cat +3.000 largest coefficient · next  sat" in said(followed[0]) and '<bdi class="match"> sat</bdi>' in followed[0]
    assert "2 of the 6 smallest" in said(having[0]) and "<s>The cat sat.↵ −9.000 smallest coefficient · next The" in said(having[0])
    assert re.findall(r'class="match"[^>]*>([^<]+)</bdi>', having[0]) == [" sat"]


@pytest.mark.thorough
def test_words_are_shown_with_all_of_the_text_that_they_are_looked_for_in(visit: Visit, tiny: Path) -> None:
    (having,) = groups(visit(tiny, "search", q="the dog")).values()
    # L0N0 at 8, the second of its largest
    assert "<s>The dog +2.000 rank 2 of the largest coefficients · next  sat" in said(having[0])
    assert re.findall(r'class="([a-z ]*)"[^>]*>([^<]+)</bdi>', having[0])[-3:-1] == [("match", "The"), ("peak match", " dog")]


def test_the_tokens_that_words_lie_in_are_marked() -> None:
    assert previews.has_words(["a b", "c d", "e"], "BC") == {0, 1}
    assert previews.has_words(["in", " in", "side"], "in") == {1}
    assert previews.has_words(["a"], "b") == set()
    # 80 characters before the last token, the token that they begin in with all of its own
    assert previews.search_start(["far", "x" * 50, "y" * 30, "z"]) == 1
    assert previews.search_start(["far", "x" * 50, "y" * 29, "z"]) == 0
    assert previews.search_start(["z"]) == 0


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("L1N2", "L1N2"),
        ("L0H0", "Attention head L0H0"),
        ("L3N0", "There is no L3N0: this model has layers 0 to 2, each with neurons 0 to 3."),
        ("L0H9", "There is no L0H9"),
        ("8", "Position 8: the model predicts . there"),
        ("9", "position 9 is not traced; the nearest traced positions are 8, 2, 101"),
    ],
)
def test_an_address_and_a_position_are_known(visit: Visit, tiny: Path, typed: str, said: str) -> None:
    app = visit(tiny, "search", q=typed)
    assert not app.exception and not app.error
    assert said in text_of(app)


def test_without_a_sweep_values_are_found_and_the_rest_says_what_to_run(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    con.execute("DELETE FROM neuron_statistics; DELETE FROM trigger; DELETE FROM run WHERE kind = 'sweep'")
    con.close()
    app = visit(tiny, "search", q="sat")
    assert not app.exception
    assert "L2N1" in text_of(app) and "not swept" in text_of(app)
    assert "No text has been swept yet" in text_of(app) and "atlas ingest tiny.duckdb --corpus tales --context 5" in text_of(app)


@pytest.mark.thorough
def test_a_token_that_looks_like_markup_is_text(visit: Visit, nasty: Path) -> None:
    app = visit(nasty, "search", q='"q",')
    assert '␣"q",' in text_of(app)
    row = {"layer": 0, "neuron": 0, "promotes": ["<script>"], "coefficient": 1.0, "tokens": ["<img src=x>"], "coefficients": [1.0], "histogram": None}
    row |= {"tail": "max", "rank": 1, "next_token": "<u>"}
    assert {tag for tag, _ in read(previews.row(row, "<b>")).tags} <= {"div", "span", "bdi", "a"}
