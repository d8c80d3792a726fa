"""The room of evidence on the tiny atlas, which has every pass: each topic, its sentences, and what is said where something is missing."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import duckdb
import polars as pl
import pytest

from atlas.beside.experiments import EXPERIMENTS
from atlas.beside.retrieval import RETRIEVALS
from atlas.export.rendering import render_figure
from schema.open import store
from tests.atlas.experiments.tiny_experiments import write_tiny_experiments
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals
from tests.atlas.tiny_suites import add_suites
from tests.ui.conftest import Visit, htmls, read, tables, text_of
from ui.evidence import experiments, intervention_sentences, measurement_sentences, pictures
from ui.evidence.room import HEADINGS
from ui.evidence.topics import TOPICS


@pytest.fixture(scope="module")
def whole_original(tiny_original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With tests, experiments and retrievals."""
    path = Path(shutil.copy(tiny_original, tmp_path_factory.mktemp("whole")))
    write_tiny_experiments(path)
    write_tiny_retrievals(path)
    with duckdb.connect(path) as con:
        add_suites(con)
    return path


@pytest.fixture
def whole(whole_original: Path, tmp_path: Path) -> Path:
    for kind in (EXPERIMENTS, RETRIEVALS):
        shutil.copy(kind.path(whole_original), tmp_path)
    return Path(shutil.copy(whole_original, tmp_path))


SAID = {
    # tests/atlas/questions has the rows
    "events": ["Of the 2 eliminations 1 take down the very token that was just read (50%)", "at 1 events of elimination of another token"],
    "heads": ["L0H0 shows it most: 0.88 of its attention on random tokens, where equal weights have 0.12. Of 3 heads 3 have more than 0.30."],
    "circuits": ["L2H0 reads L1H0 most, +0.293 above chance; 2 pairs of heads reach the threshold.", "of 1 pair whose weights"],
    "probes": ["Best at resid_post of layer 1: 100.0% of 3 words; the commonest label of each type alone is right for 66.7%"],
    "retrieval": ["With 7 entries beside the model perplexity goes from 2.3 to 2.7 over 2 queries, and from 4.0 to 6.2 without near-copies."],
    "experiments": [
        "6 experiments beside this atlas",
        "the answer's probability changes by −75%, over 1 prompt.",
        "scored by alt-profanity-check",
        "Prompt 1 with states of prompt 0; an effect of 1 is the whole difference between the two, +4.00 logits: where the tokens differ, the state carries "
        "half of the difference or more up to layer 0; of the updates, attn_out of layer 2 at ␣dog carries most (0.12).",
        "By integrated gradients against mean, to the log probability of the answer ␣cat adds most (+2.00); all together +2.00 of the difference, "
        "+2.00. The sum is off by 0.0%.",
    ],
    "tests": ["Passed: cats (dir) 100.0% of 1 item, cats (inv) 0.0% of 1 item, cats (mft) 100.0% of 1 item, cats (pair) 33.3% of 3 items,"],
    "reading": [
        "Perplexity 3.1 over 7 positions of all; counted 5-grams have 5.4.",
        "The surest mistake: after . the model expects ␣dog with probability 0.500; ↵ follows, at rank 2.",
    ],
}
"""Topic → what its sentences say of the tiny atlas; of its first corpus where a question is of one text."""


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("name", TOPICS)
def test_every_topic_answers_its_questions_in_sentences(visit: Visit, whole: Path, name: str) -> None:
    app = visit(whole, "evidence", show=name)
    said = text_of(app)
    assert not app.exception and not app.error, said
    assert [t.value for t in app.title] == [TOPICS[name].heading]
    assert all(sentence in said for sentence in SAID[name]), said
    assert "Not here yet" not in said


def test_paradigms_of_one_name_have_a_bar_each() -> None:
    frame = pl.DataFrame({"suite": ["a", "a", "b"], "kind": ["pair", "pair", "mft"], "paradigm": [None, "order", "order"], "accuracy": [0.7, 0.9, 0.4]})
    found = measurement_sentences.select_paradigms(frame)
    assert found["paradigm"].to_list() == ["b (mft): order", "a (pair): order"]
    assert found["accuracy"].to_list() == [0.4, 0.9]


def test_parts_of_several_corpora_have_names_of_their_own() -> None:
    frame = pl.DataFrame({"corpus_id": [0, 0, 3], "part": ["all", "test", "all"]})
    assert measurement_sentences.name_parts(frame)["part"].to_list() == ["all of corpus 0", "test of corpus 0", "all of corpus 3"]
    assert measurement_sentences.name_parts(frame.head(2))["part"].to_list() == ["all", "test"]


def test_what_carries_a_difference_is_told_by_token_and_layer() -> None:
    cells = {("resid_post", 0, 0): 0.9, ("resid_post", 5, 0): 0.5, ("resid_post", 6, 0): 0.1, ("resid_post", 0, 1): 0.0, ("resid_post", 7, 1): 0.75}
    cells |= {("ffn_out", 3, 0): 0.25, ("attn_out", 6, 1): 0.5}
    frame = pl.DataFrame(
        [
            {"prompt": 1, "from_prompt": 0, "site": site, "layer": layer, "index": i, "token": (" Rome", " of")[i], "from_token": (" Paris", " of")[i]}
            | {"effect": effect, "total_effect": 8.0, "logit_difference": 0.0}
            for (site, layer, i), effect in cells.items()
        ]
    )
    both = pl.concat([frame.with_columns(prompt=pl.lit(0), from_prompt=pl.lit(1), effect=pl.lit(1.0)), frame], how="vertical_relaxed")
    said = intervention_sentences.describe_patching(both)
    assert (
        "carries half of the difference or more up to layer 5; at the last token, the state carries half or more from layer 7; "
        "of the updates, attn_out of layer 6 at ␣of carries most (0.50)." in said
    )
    assert "none of the states carries half of the difference; of the updates" not in said
    assert intervention_sentences.describe_patching(frame.filter(effect=0.1)).count("none of the states carries half of the difference") == 1
    assert json.loads(pictures.draw_patching(both).to_json())["height"] >= 2 * 11


@pytest.mark.thorough
def test_what_a_stranger_kept_of_a_patching_is_drawn_as_far_as_it_can_be() -> None:
    """The file's rules allow other sites, a prompt whose tokens are missing, and numbers that are none; a prompt may be long and a token longer."""
    cells = pl.DataFrame({"site": ["resid_post", "ffn_out", "attn_out"]}).join(pl.DataFrame({"layer": [0, 1, 2, 3, 4, 5, 6]}), how="cross")
    tokens = pl.DataFrame({"index": range(300), "token": [f" t{i}" for i in range(299)] + ["x" * 10**6]})
    frame = cells.join(tokens, how="cross").with_columns(
        prompt=1, from_prompt=0, from_token=pl.lit(None, pl.String), effect=pl.lit(0.5), total_effect=pl.lit(1.0), logit_difference=pl.lit(0.0)
    )
    said = intervention_sentences.describe_patching(frame)
    assert said.endswith(" The picture has the first 256 of the prompt's 300 tokens.") and len(said) < 1000
    chart = pictures.draw_patching(frame)
    # 5,376 cells are more than Altair's own limit
    assert render_figure(chart, "svg").count(b"t255") >= 1 and chart.layer[0].data.height == 3 * 7 * 256
    head = frame.head(3)
    for odd in (head.with_columns(site=pl.lit("head")), head.with_columns(effect=pl.Series([float("inf"), float("-inf"), float("nan")]))):
        drawn = pictures.draw_patching(odd)
        assert drawn.layer[0].data.is_empty() and b"<svg" in render_figure(drawn, "svg")
        assert json.dumps(drawn.to_dict(), allow_nan=False)


def test_no_more_prompts_of_a_saliency_are_offered_than_can_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame({"experiment": [4], "kind": ["saliency"], "status": ["finished"], "n_prompts": [10**12]})
    monkeypatch.setattr(experiments.data, "ask", lambda *_, **__: SimpleNamespace(frame=rows))
    assert experiments.list_saliency_prompts() == [str(i) for i in range(1000)]


def test_of_saliency_what_takes_away_and_a_sum_that_is_far_off_are_said() -> None:
    row = {"method": "integrated_gradients", "score": "logprob", "baseline": "<s>", "explained": 3.0, "sum": 1.5, "completeness_error": 0.5}
    frame = pl.DataFrame([{**row, "is_complete": False, "index": i, "token": f" t{i}", "attribution": a} for i, a in enumerate((1.0, 2.5, -2.0, None))])
    said = intervention_sentences.describe_saliency(frame)
    assert "␣t1 adds most (+2.50) and ␣t2 takes away most (−2.00); all together +1.50 of the difference, +3.00" in said
    assert said.endswith("The sum is off by 50.0%, too much to go by.")
    assert "to the log probability of the answer no token adds any; all together" in intervention_sentences.describe_saliency(
        frame.with_columns(attribution=pl.lit(0.0))
    )
    drawn = pictures.draw_attributions(frame)
    assert drawn.data["name"].to_list() == ["0 ␣t0", "1 ␣t1", "2 ␣t2"]


@pytest.mark.thorough
def test_the_prompt_of_a_saliency_is_chosen_and_stands_in_the_address(visit: Visit, whole: Path) -> None:
    assert "FROM experiments.saliency(4, 0)" in text_of(visit(whole, "evidence", show="experiments", saliency="4", saliency_prompt="0"))
    assert "no saliency_prompt 1; available: 0" in text_of(visit(whole, "evidence", show="experiments", saliency="4", saliency_prompt="1"))


def test_a_pair_of_heads_names_both_each_a_link(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "evidence", show="circuits")
    # tests/atlas/questions/composition_edges.json
    assert tables(app)[0][["layer", "head", "reads"]].values.tolist()[0] == [2, 0, "L1H0"]
    row = next(html for html in htmls(app) if '<table class="rows">' in html).split("<tbody>")[1].split("</tr>")[0]
    assert [attributes["href"] for tag, attributes in read(row).tags if tag == "a"] == ["/component?at=L2H0&of=ww", "/component?at=L1H0&of=ww"]


def test_all_topics_are_links_and_the_one_that_is_shown_is_marked(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "evidence")
    (listed,) = (read(html) for html in htmls(app) if "topics" in html)
    links = [attributes for tag, attributes in listed.tags if tag == "a"]
    assert [str(link["href"]).partition("&of=")[0] for link in links] == [f"/evidence?show={name}" for name in HEADINGS]
    assert [link["href"] for link in links if link.get("aria-current")] == [links[0]["href"]]


def test_a_panel_that_there_is_not_is_said(visit: Visit, tiny: Path) -> None:
    assert "no topic pictures; the topics are events, heads, circuits" in text_of(visit(tiny, "evidence", show="pictures"))


@pytest.mark.first_cases(5)
@pytest.mark.parametrize(
    ("name", "said", "command"),
    [
        ("heads", "Not here yet: no head_probe and no head_statistics.", "--head"),
        ("circuits", "Not here yet: no circuit.", "--circuit"),
        ("probes", "Not here yet: no probe.", "--probe"),
        ("retrieval", "Not here yet: no keys.", "--keys"),
        ("experiments", "Not here yet: no experiment.", "atlas experiment tracing"),
        ("tests", "Not here yet: no test.", "--suite"),
        ("reading", "Not here yet: no prediction.", "--corpus"),
        ("events", "Not here yet: no trace.", "--trace"),
    ],
)
def test_what_an_atlas_lacks_is_said_with_the_command_that_fills_it(visit: Visit, tiny: Path, name: str, said: str, command: str) -> None:
    con = store.open_writer(tiny)
    con.execute("DELETE FROM run WHERE kind <> 'weights'")
    con.execute("DELETE FROM head_probe")
    con.execute("DELETE FROM head_statistics")
    con.close()
    app = visit(tiny, "evidence", show=name)
    assert said in text_of(app) and command in text_of(app)
    assert not app.exception and not app.error


@pytest.mark.thorough
def test_eliminations_of_the_input_token_are_left_out_if_so_asked(visit: Visit, tiny: Path) -> None:
    # of position 2 alone the candidate is the token read there
    assert tables(visit(tiny, "evidence"))[0][["token", "candidate", "is_input_token"]].values.tolist() == [
        ["␣dog", ".", False],
        ["␣cat", "␣cat", True],
    ]
    others = visit(tiny, "evidence", input_token="no")
    assert tables(others)[0]["candidate"].to_list() == ["."]
    assert "FROM elimination_events(n := 200, corpus := 0, input_token := 'no')" in text_of(others)


@pytest.mark.thorough
def test_the_address_restores_what_is_chosen(visit: Visit, tiny: Path) -> None:
    said = text_of(visit(tiny, "evidence", event_layer="1", corpus="0"))
    assert "FROM elimination_events(layer := 1, n := 200, corpus := 0)" in said
    assert "FROM geva2022_events(corpus := 0)" in said
    assert "FROM composition_edges(kind := 'v', min_excess := 0.1::DOUBLE)" in text_of(visit(tiny, "evidence", show="circuits", reads_by="v", excess="0.1"))
    assert "No saturation here." in text_of(visit(tiny, "evidence", event_layer="2"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"input_token": "maybe"}, "no input_token maybe; available: yes, no"),
        ({"event_layer": "3"}, "no layer 3: this model has layers 0 to 2"),
        ({"event_layer": "one"}, "the address asks for event_layer one, which is not a whole number"),
        ({"event_layer": "1e400"}, "the address asks for event_layer 1e400, which is not a whole number"),
        ({"corpus": "7"}, "no corpus 7; available: 0: tales (all), 1: more (test)"),
        ({"show": "heads", "behaviour": "sleeping"}, "no behaviour sleeping; available: induction, "),
        ({"show": "circuits", "excess": "much"}, "the address asks for excess much, which is not a number"),
    ],
)
def test_what_does_not_exist_is_said(visit: Visit, tiny: Path, query: dict[str, str], said: str) -> None:
    app = visit(tiny, "evidence", **query)
    assert said in text_of(app)
    assert not app.exception


def test_a_sentence_names_few_kinds_of_experiment_and_none_at_length() -> None:
    said = intervention_sentences.describe_experiments(
        pl.DataFrame({"kind": ["tracing", "tracing", "x\x1b[31m" + "y" * 1000, *(f"kind{i}" for i in range(20))]})
    )
    assert said.startswith("23 experiments beside this atlas: 2 of tracing, ") and said.endswith(", and more of 14 other kinds.")
    assert "\x1b" not in said and len(said) < 400
