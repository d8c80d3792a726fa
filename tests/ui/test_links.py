"""Addresses: what each link is as text, where rows lead, and where old addresses lead."""

import pytest

from atlas.address import Head, Neuron
from ui import links, redirects


@pytest.mark.parametrize(
    ("link", "address"),
    [
        (links.neuron(20, 100), "/component?at=L20N100"),
        (links.head(7, 3), "/component?at=L7H3"),
        (links.component(Neuron(1, 2), tab="texts"), "/component?at=L1N2&tab=texts"),
        (links.component(Head(1, 2), tab=None), "/component?at=L1H2"),
        (links.prediction(136, open="L28"), "/prediction?position=136&open=L28"),
        (links.live("a & b", off=["L29N44", "L7H3"], index=0), "/prediction?prompt=a%20%26%20b&off=L29N44,L7H3&index=0"),
        (links.live("a", off=[]), "/prediction?prompt=a"),
        (links.search('"<b>"'), "/search?q=%22%3Cb%3E%22"),
        (links.evidence("papers", paper="geva2022", item="table4"), "/evidence?show=papers&paper=geva2022&item=table4"),
        (links.query("SELECT 1"), "/sql?sql=SELECT%201"),
        (links.Link(links.OVERVIEW), "/"),
    ],
)
def test_a_link_as_text(link: links.Link, address: str) -> None:
    assert links.address(link) == address
    assert links.address(link, "217a624a") == f"{address}{'&' if '?' in address else '?'}of=217a624a"


def test_rows_lead_to_their_neuron_else_to_their_head_else_to_their_position() -> None:
    assert links.of_row({"layer": 3, "neuron": 17, "position_id": 5}) == links.neuron(3, 17)
    assert links.of_row({"layer": 3, "head": 1, "position_id": 5}) == links.head(3, 1)
    assert links.of_row({"layer": 3, "neuron": None, "position_id": 5}) == links.prediction(5, open="L3")
    assert links.of_row({"position_id": 5}) == links.prediction(5)
    assert links.of_row({"layer": 3, "mean": 0.5}) is None


@pytest.mark.parametrize(
    ("path", "query", "to"),
    [
        ("/neuron", "layer=20&neuron=100", "/component?at=L20N100"),
        ("/neuron", "layer=99&neuron=x&context=wide", "/component?at=L99Nx&context=wide"),
        ("/neuron", "", "/component?at=L0N0"),
        ("/papers", "paper=geva2022&item=table4", "/evidence?show=papers&paper=geva2022&item=table4"),
        ("/events", "event=elimination", "/evidence?show=events&event=elimination"),
        ("/prediction", "position=136&in_layer=28", "/prediction?position=136&open=L28"),
        ("/prediction", "position=136", None),
        ("/component", "at=L1N2", None),
        ("/", "layer=1", None),
        ("/neuron/_stcore/health", "", None),
    ],
)
def test_an_old_address_leads_to_where_its_view_is(path: str, query: str, to: str | None) -> None:
    assert redirects.new_address(path, query) == to
