"""The charts of events, on the screen and in files."""

import altair as alt
import polars as pl
import pytest

from atlas.papers import geva2022
from ui import charts

SCORED = {"max_score": [3.0, 1.0], "mean_score": [1.0, 0.0], "min_score": [-2.0, -1.0], "selection": ["dominant", "random"]}
ROWS = {
    "TABLE4": {"event": ["saturation", "saturation"], **SCORED},
    "FIG3": {"layer": [0, 0], **SCORED},
    "EVENTS": {"layer": [0, 1], "n_saturations": [1, 0], "n_eliminations": [2, 3], "n_other_eliminations": [0, 3]},
}


@pytest.mark.parametrize("name", ROWS)
def test_a_chart_of_the_paper_takes_off_its_print_dress_on_the_screen_and_keeps_it_in_files(name: str) -> None:
    chart = getattr(geva2022, name).chart(pl.DataFrame(ROWS[name]))
    assert charts.apply_print_style(chart) is chart
    paper, screen = chart.to_dict(), charts.apply_screen_style(chart).to_dict()
    assert "width" in paper and "width" not in screen and "background" not in screen
    for part in ("mark", "encoding", "layer", "datasets"):
        assert screen.get(part) == paper.get(part)


def test_other_charts_are_dressed_for_files_alone() -> None:
    chart = alt.Chart().mark_bar()
    assert charts.apply_screen_style(chart) is chart
    assert charts.apply_print_style(chart).to_dict()["config"]["background"] == "white"
