"""The page on promotion and elimination, on the tiny atlas: its events are listed in tests/atlas/questions."""

from pathlib import Path

import altair as alt
import polars as pl
import pytest

from atlas.papers import geva2022_charts
from tests.ui.conftest import Visit, tables, text_of
from ui import charts


def test_saturations_come_first_with_their_counts_beside_them(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "evidence")
    listed, table4 = tables(app)
    assert table4[["event", "selection", "n_events"]].values.tolist() == [
        ["saturation", "dominant", 3],
        ["saturation", "random", 3],
        ["elimination", "dominant", 3],
        ["elimination", "random", 3],
        ["elimination of another token", "dominant", 2],
        ["elimination of another token", "random", 2],
    ]
    assert listed[["layer", "token", "final_token"]].values.tolist() == [[1, "␣cat", "␣[red]"], [1, "␣cat", "␣sat"], [0, "␣cat", "␣[red]"]]


def test_the_address_restores_the_filters(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "evidence", event="elimination", event_layer="1", corpus="0", events="1")
    assert not app.error
    assert "FROM elimination_events(layer := 1, n := 1, corpus := 0)" in text_of(app)
    assert "FROM geva2022_events(corpus := 0)" in text_of(app)
    # position 8 falls to rank 7, position 2 to rank 4
    assert tables(app)[0][["layer", "token", "candidate_rank_after"]].values.tolist() == [[1, "␣dog", 7]]


def test_how_many_eliminations_take_down_the_token_just_read_is_said_where_they_are_shown(visit: Visit, tiny: Path) -> None:
    # of position 2 alone the candidate is the token read there
    said = "Of the 3 eliminations 1 take down the input token, the very token that was just read."
    app = visit(tiny, "evidence", event="elimination")
    assert text_of(app).count(said) == 2
    assert tables(app)[0][["token", "candidate", "is_input_token"]].values.tolist() == [
        ["␣dog", ".", False],
        ["␣cat", "␣cat", True],
        ["␣cat", "␣*", False],
    ]


def test_no_event_of_the_kind_is_said(visit: Visit, tiny: Path) -> None:
    assert "No saturation here." in text_of(visit(tiny, "evidence", event_layer="2"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"event": "saturations"}, "no event saturations; they are saturation, elimination"),
        ({"event_layer": "3"}, "no layer 3: this model has layers 0 to 2"),
        ({"event_layer": "one"}, "the address asks for event_layer one, which is no whole number"),
        ({"corpus": "7"}, "no corpus 7; they are 0: tales (all), 1: more (test)"),
        ({"events": "0"}, "at least 1, not 0"),
    ],
)
def test_what_does_not_exist_is_said(visit: Visit, tiny: Path, query: dict[str, str], said: str) -> None:
    app = visit(tiny, "evidence", **query)
    assert said in text_of(app)
    assert not app.exception


SCORED = {"max_score": [3.0, 1.0], "mean_score": [1.0, 0.0], "min_score": [-2.0, -1.0], "selection": ["dominant", "random"]}
ROWS = {
    "table4": {"event": ["saturation", "saturation"], **SCORED},
    "fig3": {"layer": [0, 0], **SCORED},
    "events": {"layer": [0, 1], "n_saturations": [1, 0], "n_eliminations": [2, 3], "n_other_eliminations": [0, 3]},
}


@pytest.mark.parametrize("name", ROWS)
def test_a_chart_of_the_paper_takes_off_its_print_dress_on_the_screen_and_keeps_it_in_files(name: str) -> None:
    chart = getattr(geva2022_charts, name)(pl.DataFrame(ROWS[name]))
    assert charts.printed(chart) is chart
    paper, screen = chart.to_dict(), charts.screened(chart).to_dict()
    assert "width" in paper and "width" not in screen and "background" not in screen
    for part in ("mark", "encoding", "layer", "datasets"):
        assert screen.get(part) == paper.get(part)


def test_other_charts_are_dressed_for_files_alone() -> None:
    chart = alt.Chart().mark_bar()
    assert charts.screened(chart) is chart
    assert charts.printed(chart).to_dict()["config"]["background"] == "white"
