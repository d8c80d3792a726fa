"""Addresses, for `<a href>`, of the things that the Prediction page names."""

from atlas.address import Head, Neuron
from ui import links
from ui.prediction.address import View


def of_view(view: View) -> str:
    return links.href(links.link(links.PREDICTION, **view.parameters()))


def of_component(component: Neuron | Head) -> str:
    return links.href(links.component(component))


def of_position(position_id: int) -> str:
    return links.href(links.prediction(position_id))


def of_token(text: str) -> str:
    return links.href(links.search(text))
