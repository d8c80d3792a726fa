"""Addresses of the Prediction room: what is read of them, what stands in them, and what is refused."""

import pytest

from atlas.address import Head
from schema.errors import AtlasError
from ui.prediction import address
from ui.prediction.address import View


def test_an_address_is_read_and_written_alike_without_what_is_as_it_is_by_itself() -> None:
    corpus = {"position": "136", "for": " great", "against": " best", "open": "L28", "head": "L7H3", "parts": "all"}
    assert address.read_view(corpus) == View(position=136, token=" great", rival=" best", layer=28, head=Head(7, 3), is_whole=True)
    live = {"prompt": "The city council, 50%", "off": "L29N44,L7H3,L2N1=max*0.5"}
    assert address.read_view(live) == View(prompt="The city council, 50%", off=("L29N44", "L7H3", "L2N1=max*0.5"))
    for parameters in (corpus, live):
        assert address.read_view(parameters).parameters() == parameters
    assert address.read_view({"prompt": "x", "index": "-1", "off": ""}).parameters() == {"prompt": "x"}


def test_a_switch_is_put_changed_and_taken_away() -> None:
    view = View(prompt="x", off=("L1N2", "L0H1"))
    assert view.with_switch("L1N2", "=max*1").off == ("L0H1", "L1N2=max*1")
    assert view.with_switch("L1N2", None).off == ("L0H1",)
    assert view.with_switch("L3N4", "").off == ("L1N2", "L0H1", "L3N4")
    assert address.read_view({"prompt": "x", "off": "L1N2,l1n2=max*1"}).off == ("l1n2=max*1",)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"position": "8x"}, "no position 8x"),
        ({"position": "8", "prompt": "x"}, "asks for a position and for a prompt"),
        ({"prompt": "x" * 601}, "the prompt has 601 characters; these pages take 600"),
        ({"prompt": "x", "index": "last"}, "last is not the number of a token"),
        ({"prompt": "x", "off": "L1X2"}, "is no intervention"),
        ({"prompt": "x", "off": "L1H2=max*1"}, "a head can only be set to 0"),
        ({"prompt": "x", "off": ",".join(f"L0N{i}" for i in range(17))}, "more than 16 switches"),
        ({"prompt": "x", "off": "L0N" + "1" * 5000}, "more than 16 switches"),
        ({"open": "28"}, "'28' is not a layer"),
        ({"head": "L7N3"}, "an attention head is needed here"),
        ({"parts": "some"}, "parts=some is unknown: parts=all shows all parts; without it, the largest are shown"),
    ],
)
def test_what_an_address_may_not_ask_for_is_said(parameters: dict[str, str], said: str) -> None:
    with pytest.raises(AtlasError, match=said):
        address.read_view(parameters)
