"""The one box, on the tiny atlas: what words may mean, neurons once each with what they do, and where a word is that a group lacks."""

import base64
import re
from pathlib import Path

import pytest

from atlas.address import Head, Neuron
from schema import store
from tests.ui.conftest import Visit, htmls, read, text_of
from ui import previews
from ui.search.parsing import Asked, parse


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        (" l20n100 ", Asked(Neuron(20, 100), None, "l20n100")),
        ("L7H3", Asked(Head(7, 3), None, "L7H3")),
        ("136", Asked(None, 136, "136")),
        ("the dog", Asked(None, None, "the dog")),
        (" ", Asked(None, None, " ")),
        ("x" * 500, Asked(None, None, "x" * 200)),
    ],
)
def test_what_is_typed_may_be_a_component_a_position_and_is_always_text(typed: str, asked: Asked) -> None:
    assert parse(typed) == asked


def groups(visit: Visit, path: Path, typed: str) -> dict[str, list[str]]:
    """Heading → addresses of its rows."""
    app = visit(path, "search", q=typed)
    assert not app.exception and not app.error
    shown = [re.findall(r"at=(L\d+N\d+)", html) for html in htmls(app) if html.startswith('<div class="previews"')]
    return dict(zip([h.value.partition(":")[0] for h in app.header], shown, strict=False))


@pytest.mark.thorough
def test_a_token_is_answered_in_groups_and_no_neuron_is_repeated(visit: Visit, tiny: Path) -> None:
    found = groups(visit, tiny, "sat")
    # neuron 1 of each layer promotes ' sat', score 4 + layer
    assert found["Written by"] == ["L2N1", "L1N1", "L0N1"]
    assert found["Triggered by it"][0] == "L0N1"
    for addresses in found.values():
        assert len(set(addresses)) == len(addresses) > 0


@pytest.mark.thorough
def test_a_row_says_what_the_neuron_does(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "search", q="sat")
    row = next(html for html in htmls(app) if html.startswith('<div class="previews"')).split('<div class="row"')[3]
    found = read(row)
    # of L0N1: it promotes ' sat' and ' *'; its largest coefficient is 4, at ' sat' of position 3
    said = "".join(found.texts)
    assert "L0N1" in said and "␣sat␣*" in said and "<s>The cat sat +4.000" in said
    (image,) = [attributes for tag, attributes in found.tags if tag == "img"]
    drawn = base64.b64decode(image["src"].partition("base64,")[2]).decode()
    # seven bins hold its 14 coefficients; the fullest, of six zeros, is drawn to the top
    assert drawn.count("<rect") == 7 + 1
    assert "<rect x='34' y='0.0' width='1' height='22.0'/>" in drawn


@pytest.mark.thorough
def test_an_empty_group_says_where_the_word_is(visit: Visit, tiny: Path) -> None:
    assert "None. It is found under: triggered by it, followed by it, in the texts." in text_of(visit(tiny, "search", q="The"))
    app = visit(tiny, "search", q="the dog")
    assert "As a token: no token 'the dog' in the vocabulary" in text_of(app)
    assert [h.value.partition(":")[0] for h in app.header] == ["In the texts"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("L1N2", "L1N2"),
        ("L0H0", "Attention head L0H0"),
        ("L3N0", "There is no L3N0: this model has layers 0 to 2, each with neurons 0 to 3."),
        ("L0H9", "There is no L0H9"),
        ("8", "Position 8: the model predicts . there"),
        ("9", "position 9 is not traced; the nearest that are: 8, 2, 101"),
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
    assert {tag for tag, _ in read(previews.row(row | {"coefficient": 1.0}, "<b>")).tags} <= {"div", "span", "bdi", "a"}
