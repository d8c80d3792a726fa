"""The room of one component, on the tiny atlas, whose numbers are worked out by hand in tests/atlas."""

import re
from contextlib import closing
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import TextInput

import atlas
from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.keeping import insert
from atlas.beside.annotations.subjects import Address, Annotation, Pattern, read_shown_items
from schema.open import store
from schema.open.change import change_companion_with_atlas
from tests.ui.conftest import Visit, htmls, tables, text_of
from ui.component import front, head, neuron


def glance(app: AppTest) -> str:
    return next(html for html in htmls(app) if html.startswith('<div class="front"'))


@pytest.mark.first_cases(4)
@pytest.mark.parametrize(
    ("at", "places"),
    [
        ("L0N0", {"Next": "L0N1"}), ("L0N3", {"Previous": "L0N2", "Next": "L1N0"}), ("L2N3", {"Previous": "L2N2"}),
        ("L0H0", {"Next": "L1H0"}), ("l1h0", {"Previous": "L0H0", "Next": "L2H0"}),
    ],
)  # fmt: skip
def test_previous_and_next_lead_through_the_model(visit: Visit, tiny: Path, at: str, places: dict[str, str]) -> None:
    app = visit(tiny, "component", at=at)
    found = {name: place for html in htmls(app) for place, name in re.findall(r'<a href="/component\?at=(\w+)&amp;of=ww">(\w+)</a>', html)}
    assert {name: found[name] for name in ("Previous", "Next") if name in found} == places


def test_without_heads_it_begins_with_a_neuron(visit: Visit, tiny: Path) -> None:
    with closing(store.open_writer(tiny)) as con:
        con.execute("UPDATE model SET n_heads = 0, n_kv_heads = 0, d_head = 0")
    app = visit(tiny, "component")
    assert "Every neuron has a view of its own" in text_of(app)
    assert not app.exception


def test_without_an_address_the_room_says_where_to_begin(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "component")
    assert [t.value for t in app.title] == ["Components"]
    assert "Every neuron and every attention head has a view of its own" in text_of(app)


def test_a_neuron_answers_at_a_glance(visit: Visit, tiny: Path) -> None:
    said = glance(visit(tiny, "component", at="L0N0"))
    # of corpus 0 one size of ten is 0 and one lies between 0.25 and 0.375, of which 0.4 are below a tenth of the largest; that is 3 at position 2, ' cat'
    assert "A dense key: its coefficient exceeds 0.3 in size at 86% of positions and lies between −2.000 and +3.000." in said
    assert said.index("Promotes") < said.index("<bdi>␣cat</bdi><bdi>␣dog</bdi>") < said.index("Suppresses") < said.index("<bdi>↵</bdi><bdi>|</bdi>")
    assert "Coefficients at 14 positions" in said
    largest, smallest = said.split("Largest coefficients")[1].split("Smallest coefficients")
    assert re.findall(r'class="gutter">([^<]+)<', largest) == ["+3.000", "+2.500", "+2.000"]
    # −1.500 is of the sequence of −2.000
    assert re.findall(r'class="gutter">([^<]+)<', smallest) == ["−3.000", "−2.000"]
    assert "sequence" not in largest and "One text per sequence; these 2 sequences have 1 more." in smallest


def test_one_text_of_a_sequence_is_shown_and_all_where_the_reader_asks(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "component", at="L0N0")
    shown = [html for html in htmls(app) if html.startswith('<div class="trigger"')]
    assert [re.findall(r'class="gutter">([^<]+)<', html) for html in shown] == [["+3.000", "+2.500", "+2.000"], ["−3.000", "−2.000"]]
    assert "1 more in this sequence" in shown[1] and "more" not in shown[0]
    app.toggle(key="every").set_value(True).run()
    shown = [html for html in htmls(app) if html.startswith('<div class="trigger"')]
    assert [re.findall(r'class="gutter">([^<]+)<', html) for html in shown][1] == ["−3.000", "−2.000", "−1.500"]


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "exceeds 0.3 in size nowhere and lies"), (0.00034, "at 0.034% of positions"), (0.99986, "at 99.9% of positions"), (1.0, "at 100% of positions")],
)
def test_how_often_a_key_fires_is_not_rounded_to_never_or_always(share: float, said: str) -> None:
    card = {"min": -1.0, "max": 2.0, "value_top_token": "a", "value_max_prob": 0.5}
    assert said in front.neuron_note(card, {"density": "some", "share": share, "threshold": 0.3}, [])


@pytest.mark.thorough
def test_a_trigger_leads_to_its_prediction_or_is_a_prompt(visit: Visit, tiny: Path) -> None:
    # of L0N0 the largest is at position 2, which is traced, ' cat' after '<s>' and 'The'; that of corpus 1 at 101 too
    said = [html for html in htmls(visit(tiny, "component", at="L0N0")) if html.startswith('<div class="trigger"')]
    leads = re.findall(r'<a href="([^"]+)">(its prediction|as a prompt)</a>', "".join(said))
    assert ("/prediction?position=2&amp;of=ww", "its prediction") in leads and ("/prediction?position=101&amp;of=ww", "its prediction") in leads
    assert {name for _, name in leads} == {"its prediction", "as a prompt"}
    assert all("prompt=" in to for to, name in leads if name == "as a prompt")
    assert not {f"position={i}&" for i in (2, 8, 101)} & {to.partition("?")[2] for to, name in leads if name == "as a prompt"}


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("tab", neuron.TABS)
def test_every_tab_of_a_neuron_opens(visit: Visit, tiny: Path, tab: str) -> None:
    app = visit(tiny, "component", at="L1N2", tab=tab)
    assert not app.exception and not app.error
    chosen = re.search(r'<a href="([^"]+)"[^>]* aria-current="true">([^<]+)</a>', "".join(h for h in htmls(app) if 'class="tabs"' in h))
    assert chosen and chosen[2] == neuron.TABS[tab]
    # the first is what an address without a tab opens
    assert ("tab=" in chosen[1]) == (tab != next(iter(neuron.TABS)))


@pytest.mark.thorough
def test_what_a_neuron_reads_and_writes_leads_to_other_neurons(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "component", at="L1N2", tab="circuits")
    assert [h.value for h in app.header] == ["Reads from", "Writes to"]
    reads, writes = tables(app)
    assert set(reads["layer"]) == {0} and set(writes["layer"]) == {2}


@pytest.mark.thorough
def test_where_a_neuron_mattered_are_predictions(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "component", at="L2N0", tab="positions")
    (found,) = tables(app)
    assert found[["position_id", "final_logit"]].values.tolist() == [[101, -4.0], [2, -2.0], [8, -1.0]]


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("tab", head.TABS)
def test_every_tab_of_a_head_opens(visit: Visit, tiny: Path, tab: str) -> None:
    app = visit(tiny, "component", at="L2H0", tab=tab)
    assert not app.exception and not app.error
    assert [t.value for t in app.title] == ["L2H0"]


def test_a_head_answers_at_a_glance(visit: Visit, tiny: Path) -> None:
    said = glance(visit(tiny, "component", at="L2H0"))
    # head_behaviours of L2H0: self is 0.4318 on text against 0.375; its copying_effective is 1
    assert "It looks at" in said and "copying +1.000" in said
    assert "Direction 1 reads (80% of its weights)" in said and "<bdi>␣cat</bdi><bdi>␣dog</bdi>" in said
    assert "the token itself" in said and "43.2%" in said


def test_a_head_has_the_heads_like_it_at_a_glance_and_under_a_tab(visit: Visit, tiny: Path) -> None:
    # tests/atlas/questions/nearest_heads.json
    app = visit(tiny, "component", at="L1H0", tab="neighbours")
    assert re.findall(r"at=(L\dH\d)", glance(app).split("look at the same")[1]) == ["L2H0", "L0H0"]
    assert "L2H0 is nearest: 18 of its mean weights differ by 0.086 on average from this head's, most for the token itself, where it has 0.27 more." in text_of(
        app
    )
    (found,) = tables(app)
    assert found[["layer", "head", "differs_most"]].values.tolist() == [[2, 0, "self"], [0, 0, "induction"]]


@pytest.mark.thorough
def test_a_head_leads_to_the_heads_that_it_reads(visit: Visit, tiny: Path) -> None:
    (reads,) = tables(visit(tiny, "component", at="L2H0", tab="circuits"))
    assert reads[["layer", "head"]].values.tolist() == [[1, 0], [0, 0]]


def test_what_an_atlas_lacks_is_said_with_what_to_run(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    con.execute("DELETE FROM run WHERE kind IN ('circuit', 'attribution', 'head_statistics')")
    con.execute("DELETE FROM virtual_weight; DELETE FROM neuron_contribution; DELETE FROM attention_distance; DELETE FROM head_statistics")
    con.execute("DELETE FROM run WHERE kind = 'head_probe'; DELETE FROM head_probe")
    con.close()
    lacking = (("L1N2", "circuits", "--circuit"), ("L1N2", "positions", "--attribution"), ("L2H0", "distance", "--head-statistics"))
    for at, tab, option in (*lacking, ("L2H0", "neighbours", "--head-statistics --head-probe")):
        app = visit(tiny, "component", at=at, tab=tab)
        assert not app.exception
        assert f"{option}" in "\n".join(code.value for code in app.code), tab


def test_a_tab_that_there_is_not_is_said(visit: Visit, tiny: Path) -> None:
    assert "no tab circus; available: texts, tokens" in text_of(visit(tiny, "component", at="L1N2", tab="circus"))


def test_an_annotation_is_kept_by_ticks_beside_the_texts_and_the_form_is_empty_again(visit: Visit, nasty: Path) -> None:
    app = visit(nasty, "component", at="L0N0", tab="notes")
    assert "Nobody has annotated this neuron yet." in text_of(app)
    app.toggle(key="annotate").set_value(True).run()
    app.selectbox(key="annotated-corpus").set_value(2).run()
    # its eight texts are of one sequence
    assert [tick.label for tick in app.checkbox] == ["1"]
    assert "=1+1 · next " in text_of(app) and "7 more in this sequence" in text_of(app)
    app.button_group(key="subject").set_value("value").run()
    app.text_input(key="annotator").set_value("anna")
    describe(app).set_value("*odd* ones")
    assert [tick.label for tick in app.checkbox[:4]] == ["1", "2", "3", "4"]
    for tick in app.checkbox[:4]:
        tick.set_value(True)
    next(b for b in app.button if b.label == "Keep").click().run()
    assert not app.exception and not app.error
    found = next(table for table in tables(app) if "annotator_kind" in table)
    assert found[["annotator", "kind", "description", "n_matches"]].to_numpy().tolist() == [["anna", "semantic", "*odd* ones", 4]]
    assert describe(app).value == "" and not any(tick.value for tick in app.checkbox)
    # it stands beside what the numbers say, and takes no place of theirs
    assert re.search(r"A dense key: .+ Its value makes .+Annotated: \*odd\* ones \(semantic, anna\)Promotes", text_of(app))


def test_what_is_said_of_a_random_vector_is_not_said_of_the_neuron_of_its_number(visit: Visit, nasty: Path) -> None:
    with atlas.open(nasty) as a:
        value = Address("value", None, 0, 0)
        items = read_shown_items(a.con, [value])[value]
        for address, what in ((Address("random_vector", None, 0, 0), "noise"), (value, "signs")):
            with change_companion_with_atlas(ANNOTATIONS, nasty) as (writer, _):
                insert(writer, [Annotation(address, items, (Pattern("names", what, (1, 2, 3, 4)),))], "anna", "ww")
    said = glance(visit(nasty, "component", at="L0N0"))
    assert "<p>Annotated: <bdi>signs</bdi> (names, <bdi>anna</bdi>)</p>" in said


def describe(app: AppTest) -> TextInput:
    return next(t for t in app.text_input if t.label == "What they have in common")
