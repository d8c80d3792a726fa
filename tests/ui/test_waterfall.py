"""The waterfall: steps against sums by hand, its sentence, and its HTML."""

import re

import pytest

from ui.prediction import waterfall

PARTS = [
    {"kind": "ffn", "layer": 2, "head": None, "centred_logit": 3.5, "n_parts": 1},
    {"kind": "head", "layer": 1, "head": 0, "centred_logit": 1.75, "n_parts": 1},
    {"kind": "token", "layer": None, "head": None, "centred_logit": -0.75, "n_parts": 1},
    {"kind": "rest", "layer": None, "head": None, "centred_logit": 1.75, "n_parts": 5},
    {"kind": "residual", "layer": None, "head": None, "centred_logit": 2.0**-13, "n_parts": 0},
]
"""With a mean of 2.5 they sum to 8.75 and the residue."""


def test_steps_go_from_the_mean_logit_to_the_logit() -> None:
    steps = waterfall.of_parts(PARTS, 2.5)
    assert [(s.name, s.before, s.after) for s in steps] == [
        ("mean of all logits", 0.0, 2.5), ("L2 FFN", 2.5, 6.0), ("L1H0", 6.0, 7.75), ("token embedding", 7.75, 7.0), ("5 other parts", 7.0, 8.75),
        ("residue of rounding", 8.75, 8.75 + 2.0**-13),
    ]  # fmt: skip


def test_the_sentence_names_what_lifts_and_what_lowers() -> None:
    said = waterfall.sentence(waterfall.of_parts(PARTS, 2.5), "The logit of ␣a")
    assert said == "The logit of ␣a is 8.750; lifted most: L2 FFN +3.500, L1H0 +1.750; lowered most: token embedding −0.750; the 5 other parts together +1.750."


def test_rows_are_links_and_bars_lie_between_their_sums() -> None:
    html = waterfall.html(waterfall.of_parts(PARTS, 2.5), "logit of <a>", 8.75, lambda s: f"x?open=L{s.layer}&a=1" if s.layer is not None else None)
    assert '<th scope="row"><a href="x?open=L2&amp;a=1">L2 FFN</a></th><td>+3.500</td><td>6.000</td>' in html
    assert '<th scope="row">5 other parts</th>' in html
    assert "logit of &lt;a&gt;" in html and "+1e−04" in html
    left, width = (float(x) for x in re.findall(r'class="down" style="margin-left:([\d.]+)%;width:([\d.]+)%', html)[0])
    assert (left, width) == (pytest.approx(100 * 7.0 / (8.75 + 2**-13), abs=0.01), pytest.approx(100 * 0.75 / 8.75, abs=0.01))
