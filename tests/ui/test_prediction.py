"""The prediction page: its charts against rows worked out by hand, and the page on the tiny atlas (traced: positions 2, 8 and 101)."""

import re
from pathlib import Path

import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

from schema.open import store
from tests.ui.conftest import Visit, htmls, text_of
from ui.prediction import charts, contributors
from ui.tokens import shade

NASTY = "<script>alert(1)</script> *a* :red[b] $x$"


def trace(next_token: str | None, next_ranks: list[int | None]) -> pl.DataFrame:
    """Two layers at two sites; the rows at resid_mid are never to be drawn."""
    rows = [
        {"layer": layer, "site": site, "final_token": " a", "final_token_rank": final + off, "final_token_prob": 0.5}
        | {"next_token": next_token, "next_token_rank": None if follows is None else follows + off, "next_token_prob": None if follows is None else 0.25}
        for layer, (final, follows) in enumerate(zip((7, 1), next_ranks, strict=True))
        for site, off in (("resid_mid", 100), ("resid_post", 0))
    ]
    return pl.DataFrame(rows, schema_overrides={"next_token": pl.String, "next_token_rank": pl.Int32, "next_token_prob": pl.Float32})


def test_the_tokens_are_followed_at_resid_post_alone() -> None:
    followed = charts.select_target_series(trace(" b", [3, 2]))
    assert followed.select("layer", "series", "rank").rows() == [(0, "final ␣a", 7), (1, "final ␣a", 1), (0, "next ␣b", 3), (1, "next ␣b", 2)]
    assert followed["prob"].to_list() == [0.5, 0.5, 0.25, 0.25]


@pytest.mark.parametrize(("token", "ranks"), [(" a", [7, 1]), (None, [None, None])])
def test_the_next_token_is_left_out_where_it_is_the_final_one_or_there_is_none(token: str | None, ranks: list[int | None]) -> None:
    assert charts.select_target_series(trace(token, ranks))["series"].unique().to_list() == ["final ␣a"]


def test_another_token_with_the_same_text_is_drawn() -> None:
    assert charts.select_target_series(trace(" a", [8, 2])).height == 4


def test_ranks_are_drawn_with_the_best_on_top_and_a_tick_for_each_power_of_ten() -> None:
    y = charts.ranks(trace(" b", [30_000, 2])).to_dict()["layer"][0]["encoding"]["y"]
    assert (y["scale"]["type"], y["scale"]["domain"]) == ("log", [30_000, 1])
    assert y["axis"]["values"] == [1, 10, 100, 1000, 10_000]


def test_bars_are_named_by_address_and_the_best_promoter_is_on_top() -> None:
    updates = pl.DataFrame(
        {
            "layer": [3, 3, 3], "neuron": [17, 4, 9], "candidate_score": [7.0, 8.0, 9.0], "final_score": [7.0, 8.0, 9.0], "next_score": [7.0, 8.0, 9.0],
            "candidate_frozen_score": [-2.0, 5.0, 0.5], "final_frozen_score": [1.0, 2.0, 3.0], "next_frozen_score": [None, None, None],
        },
        schema_overrides={"next_frozen_score": pl.Float64},
    )  # fmt: skip
    spec = charts.scores(updates).to_dict()
    assert spec["encoding"]["y"]["sort"] == ["L3N4", "L3N9", "L3N17"]
    assert spec["encoding"]["color"]["scale"]["domain"] == ["candidate", "final"]
    (drawn,) = spec["datasets"].values()
    assert {(d["neuron"], d["token"]): d["score"] for d in drawn}["L3N17", "candidate"] == -2.0
    assert spec["encoding"]["x"]["title"] == "Frozen-norm score, logits"
    # a trace that is older than these has raw scores
    older = updates.with_columns(pl.lit(None, pl.Float64).alias(f"{token}_frozen_score") for token in ("candidate", "final", "next"))
    spec = charts.scores(older).to_dict()
    assert spec["encoding"]["y"]["sort"] == ["L3N9", "L3N4", "L3N17"]
    assert spec["encoding"]["x"]["title"] == "Raw score m·(e·v)"


def html_of(app: AppTest) -> str:
    return "\n".join(htmls(app))


def headers(app: AppTest) -> list[str]:
    return [h.value for h in app.header]


def test_without_a_position_the_traced_ones_are_listed_as_links(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction")
    assert [t.value for t in app.title] == ["Traced predictions"]
    assert positions_linked(app) == ["2", "8", "101"]
    assert "3 positions; the prediction is right at 2 of 3." in text_of(app)
    assert positions_linked(visit(tiny, "prediction", words="THE DOG")) == ["8"]


def positions_linked(app: AppTest) -> list[str]:
    return re.findall(r'href="[^"]*prediction\?position=(\d+)[^"]*"', html_of(app))


@pytest.mark.thorough
def test_a_position_shows_its_text_who_made_it_and_its_grid(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction", position="2")
    assert not app.exception and not app.error
    assert [t.value for t in app.title] == ["Prediction at position 2"]
    html = html_of(app)
    assert '<bdi class="asked"> cat</bdi>' in html
    # resid_mid of layer 1 leads with " cat", which falls; resid_post with " sat", which stays: see LENS of the tiny atlas
    assert "▼ <bdi>␣cat</bdi>" in html and "▲ <bdi>␣sat</bdi>" in html
    assert "The final token leads after layer 1 and every later one. FFNs take a candidate down in layers 1, 2." in text_of(app)


def test_the_waterfall_goes_down_to_the_stored_logit_of_each_token_and_of_one_over_another(visit: Visit, tiny: Path) -> None:
    # PARTS of the tiny atlas sum to 8.75, times 0.5 of the prediction and -0.25 of the next token, and RESIDUAL
    for query, logit in (({}, 4.375), ({"for": " sat"}, -2.187), ({"against": " sat"}, 6.562), ({"for": "sat", "against": "."}, -6.562)):
        app = visit(tiny, "prediction", position="8", **query)
        assert not app.error, text_of(app)
        shown = f"{logit:.3f}".replace("-", "−")
        assert re.search(rf'<tr class="sum">.*</th><td>{shown}</td><td>{shown}</td>', html_of(app)), query


@pytest.mark.parametrize("against", [{}, {"against": " sat"}])
def test_the_parts_that_are_summed_in_one_open_one_by_one(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch, against: dict[str, str]) -> None:
    monkeypatch.setattr(contributors, "N_PARTS", 2)
    app = visit(tiny, "prediction", position="8", **against)
    # of the eight parts two stand by themselves
    opens = re.search(r'<th scope="row"><a href="([^"]+)">6 other parts</a></th>', html_of(app))
    assert opens is not None and opens[1].endswith("parts=all&amp;of=ww")
    assert "; the 6 other parts together " in text_of(app)
    total = re.search(r'<tr class="sum">.*?</tr>', html_of(app))[0]
    app.query_params["parts"] = "all"
    app.run()
    html = html_of(app)
    assert "other parts" not in html + text_of(app)
    fall = re.search(r'<div class="lens fall">.*?</table>', html)[0]
    # the heading, the mean of one logit, the parts, the residue and the sum
    assert fall.count("<tr") == 1 + (0 if against else 1) + 8 + 1 + 1
    assert total in fall
    assert re.search(r'<a href="[^"]+(?<!parts=all)">The 2 largest alone</a>', html)


def test_an_opened_layer_shows_its_parts_its_neurons_and_its_sub_updates(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction", position="8", open="L2")
    assert headers(app)[:2] == ["What does layer 2 do here?", "Who made it?"]
    html = html_of(app)
    # 0.5 times 4.0 less 0.5, and MOVERS
    assert '<td>L2 FFN</td><td class="number">+1.500</td>' in html
    assert re.search(r">L2N3</a></td><td class=\"number\">\+1.500</td>", html)
    # SCORES times FROZEN
    assert re.search(r">L2N0</a></td><td class=\"number\">\+1.500</td><td class=\"number\">\+0.000</td>", html)
    assert '<tr class="opened"><th scope="row"><a' in html


@pytest.mark.thorough
def test_a_head_shows_where_it_looks(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction", position="8", head="L1H0")
    assert headers(app)[0] == "Where does L1H0 look from here?"
    assert "L1H0 adds +1.000 logits to the prediction. Most of what it moves comes from 1 back: 75%, at a weight of 0.50." in text_of(app)
    assert f'<bdi class="" style="background:{shade(0.75, 1.0)}">The</bdi><sup>75%</sup>' in html_of(app)


@pytest.mark.thorough
def test_surprisal_and_similar_states_stand_beneath(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction", position="8")
    assert "How surprising was each token?" in headers(app)
    assert "1.13 nats on average; ↵ surprised most, with 2.1: it had probability 0.12." in text_of(app)
    # STATES: 2 and 101 both at 45 degrees
    assert re.findall(r'<td class="number">(0\.\d+)</td><td><a href="[^"]*position=(\d+)', html_of(app)) == [("0.707", "2"), ("0.707", "101")]


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"position": "9"}, "position 9 is not traced; the nearest traced positions are 8, 2, 101"),
        ({"position": "555"}, "position 555 is not traced; the nearest traced positions are 101, 8, 2"),
        ({"position": "8x"}, "no position 8x: positions are whole numbers"),
        ({"position": "8", "open": "L3"}, "no layer 3: this model has layers 0 to 2"),
        ({"position": "8", "head": "L1H4"}, "no head 4: this model has heads 0 to 0"),
        ({"position": "8", "for": "dog"}, "the logit of dog is not taken apart here; the tokens that are: . (final), ␣sat (next)"),
        ({"position": "8", "against": "."}, "a token cannot be its own rival"),
    ],
)
def test_what_does_not_exist_is_said_and_no_other_is_shown(visit: Visit, tiny: Path, query: dict[str, str], said: str) -> None:
    app = visit(tiny, "prediction", **query)
    assert said in text_of(app)
    assert not app.exception


@pytest.mark.thorough
def test_a_token_that_looks_like_markup_is_text(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    con.execute("UPDATE token SET text = ? WHERE token_id = 5", [NASTY])
    con.close()
    app = visit(tiny, "prediction", position="8", open="L1")
    assert not app.exception
    assert "&lt;script&gt;alert(1)&lt;/script&gt; *a* :red[b] $x$" in html_of(app)
    assert "<script>alert" not in html_of(app)
    shown = [str(e.value) for kind in ("markdown", "title", "header", "subheader", "caption") for e in getattr(app, kind)]
    assert not any("alert" in text for text in [*shown, *(button.label for button in app.button)])


def test_an_atlas_that_has_not_taken_predictions_apart_ranks_sub_updates_and_says_what_to_run(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    for table in ("attribution", "contribution", "neuron_contribution", "attention", "head_activity"):
        con.execute(f"DELETE FROM {table}")
    con.close()
    app = visit(tiny, "prediction", position="2", head="L1H0")
    assert not app.exception
    assert "atlas ingest tiny.duckdb --corpus tales --context 5 --trace 4000 --attribution" in text_of(app)
    assert "L1N2 does most: +1.000 logits. Of the 6 largest 1 promote the token." in text_of(app)
    assert re.search(r">L1N2</a></td><td class=\"number\">\+1.000</td>", html_of(app))
    assert "Rows of attention are not in this atlas." in text_of(app)


@pytest.mark.thorough
def test_an_atlas_without_a_trace_says_what_to_run(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    con.execute("DELETE FROM trace")
    con.close()
    app = visit(tiny, "prediction")
    assert not app.exception
    assert "atlas ingest tiny.duckdb --corpus tales --context 5 --trace 300" in text_of(app)


def test_a_position_that_is_typed_is_the_address_then(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction", position="2", open="L1")
    app.text_input[0].set_value("8")
    next(button for button in app.button if button.label == "Show").click().run()
    assert [t.value for t in app.title] == ["Prediction at position 8"]
    assert dict(app.query_params) == {"position": "8"}


def test_a_prompt_is_sent_with_its_line_breaks(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction", prompt="Hello\n\nIn")
    (field,) = app.text_area
    assert field.value == "Hello\n\nIn"
    field.set_value("Hello\n\nIn the")
    next(button for button in app.button if button.label == "Show").click().run()
    assert dict(app.query_params) == {"prompt": "Hello\n\nIn the"}
