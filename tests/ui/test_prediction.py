"""The prediction page: its charts against rows worked out by hand, and the page on the tiny atlas (traced: positions 2, 8 and 101)."""

from pathlib import Path

import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

from schema import store
from tests.ui.conftest import Visit, htmls, tables, text_of
from ui import prediction_charts

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
    followed = prediction_charts.followed(trace(" b", [3, 2]))
    assert followed.select("layer", "series", "rank").rows() == [(0, "final ␣a", 7), (1, "final ␣a", 1), (0, "next ␣b", 3), (1, "next ␣b", 2)]
    assert followed["prob"].to_list() == [0.5, 0.5, 0.25, 0.25]


@pytest.mark.parametrize(("token", "ranks"), [(" a", [7, 1]), (None, [None, None])])
def test_the_next_token_is_left_out_where_it_is_the_final_one_or_there_is_none(token: str | None, ranks: list[int | None]) -> None:
    assert prediction_charts.followed(trace(token, ranks))["series"].unique().to_list() == ["final ␣a"]


def test_another_token_with_the_same_text_is_drawn() -> None:
    assert prediction_charts.followed(trace(" a", [8, 2])).height == 4


def test_ranks_are_drawn_with_the_best_on_top_and_a_tick_for_each_power_of_ten() -> None:
    y = prediction_charts.ranks(trace(" b", [30_000, 2])).to_dict()["layer"][0]["encoding"]["y"]
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
    spec = prediction_charts.scores(updates).to_dict()
    assert spec["encoding"]["y"]["sort"] == ["L3N4", "L3N9", "L3N17"]
    assert spec["encoding"]["color"]["scale"]["domain"] == ["candidate", "final"]
    (drawn,) = spec["datasets"].values()
    assert {(d["neuron"], d["token"]): d["score"] for d in drawn}["L3N17", "candidate"] == -2.0
    assert spec["encoding"]["x"]["title"] == "Frozen-norm score, logits"
    # a trace that is older than these has raw scores
    older = updates.with_columns(pl.lit(None, pl.Float64).alias(f"{token}_frozen_score") for token in ("candidate", "final", "next"))
    spec = prediction_charts.scores(older).to_dict()
    assert spec["encoding"]["y"]["sort"] == ["L3N9", "L3N4", "L3N17"]
    assert spec["encoding"]["x"]["title"] == "Raw score m·(e·v)"


def html_of(app: AppTest) -> str:
    return "\n".join(htmls(app))


def test_without_a_position_the_traced_ones_are_listed(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction")
    assert [t.value for t in app.title] == ["Traced predictions"]
    assert tables(app)[0]["token"].to_list() == ["␣cat", "␣dog", "␣cat"]
    app = visit(tiny, "prediction", words="THE DOG")
    assert tables(app)[0]["token"].to_list() == ["␣dog"]


def test_a_position_shows_its_text_its_grid_and_its_sub_updates(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction", position="2", open="L1")
    assert not app.exception and not app.error
    assert [t.value for t in app.title] == ["Prediction at position 2"]
    html = html_of(app)
    assert '<span class="asked"> cat</span>' in html
    # resid_mid of layer 1 leads with " cat", which falls; resid_post with " sat", which stays: see LENS of the tiny atlas
    assert "▼ <bdi>␣cat</bdi>" in html and "▲ <bdi>␣sat</bdi>" in html
    promoting, demoting, happened = tables(app)
    assert happened[["layer", "event"]].values.tolist() == [[1, "elimination"], [1, "saturation"], [2, "elimination"]]
    assert promoting[["neuron", "candidate_score", "final_score"]].values.tolist() == [[0, 1.0, -1.0]]
    assert demoting[["neuron", "candidate_score", "final_score"]].values.tolist() == [[2, -2.0, 4.0]]
    assert [h.value for h in app.subheader] == ["Events at this position", "Promote the candidate", "Demote the candidate"]


def test_sub_updates_that_do_nothing_to_the_candidate_are_shown_too(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction", position="8")
    assert app.number_input[0].value == 2
    assert [h.value for h in app.subheader][1:] == ["Promote the candidate", "Demote the candidate", "Leave the candidate as it is"]
    assert [table["neuron"].to_list() for table in tables(app)[:2]] == [[0], [2]]
    assert "None of the dominant sub-updates does." in text_of(app)


def test_a_link_leads_to_each_layer_with_an_event_that_the_paper_counts(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "prediction", position="8")
    assert '<a href="/prediction?position=8&amp;open=L1&amp;of=ww">▼ elimination in layer 1</a>' in html_of(app)
    app = visit(tiny, "prediction", position="8", open="L1")
    assert app.number_input[0].value == 1
    app.number_input[0].set_value(0).run()
    assert app.query_params["open"] == "L0"


def test_all_traced_positions_are_a_link_away(visit: Visit, tiny: Path) -> None:
    assert '<a href="/prediction?of=ww">All traced positions</a>' in html_of(visit(tiny, "prediction", position="8"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"position": "9"}, "position 9 is not traced; the nearest that are: 8, 2, 101"),
        ({"position": "555"}, "position 555 is not traced; the nearest that are: 101, 8, 2"),
        ({"position": "8x"}, "no position 8x: positions are whole numbers"),
        ({"position": "8", "open": "L3"}, "no layer 3: this model has layers 0 to 2"),
    ],
)
def test_what_does_not_exist_is_said_and_no_other_is_shown(visit: Visit, tiny: Path, query: dict[str, str], said: str) -> None:
    app = visit(tiny, "prediction", **query)
    assert said in text_of(app)
    assert not app.exception
    assert not any("neuron" in table for table in tables(app))


def test_a_token_that_looks_like_markup_is_text(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    con.execute("UPDATE token SET text = ? WHERE token_id = 5", [NASTY])
    con.close()
    app = visit(tiny, "prediction", position="8")
    assert not app.exception
    assert "&lt;script&gt;alert(1)&lt;/script&gt; *a* :red[b] $x$" in html_of(app)
    assert "<script>" not in html_of(app)
    shown = [str(e.value) for kind in ("markdown", "title", "header", "subheader", "caption", "text") for e in getattr(app, kind)]
    assert not any("alert" in text for text in [*shown, *(button.label for button in app.button)])


def test_an_atlas_without_a_trace_says_what_to_run(visit: Visit, tiny: Path) -> None:
    con = store.open_writer(tiny)
    con.execute("DELETE FROM trace")
    con.close()
    for page in ("prediction", "evidence"):
        app = visit(tiny, page)
        assert not app.exception and not app.dataframe
        assert "atlas ingest NAME.duckdb --model … --corpus … --trace 300" in text_of(app)
