"""Where what the Prediction room names leads, as addresses for `<a href>`."""

from urllib.parse import urlencode

from atlas.address import Head, Neuron
from ui.prediction.address import View


def of_view(view: View) -> str:
    return f"prediction?{urlencode(view.parameters())}"


def of_component(component: Neuron | Head) -> str:
    return f"component?{urlencode({'at': str(component)})}"


def of_position(position_id: int) -> str:
    return of_view(View(position=position_id))


def of_token(text: str) -> str:
    return f"search?{urlencode({'q': text})}"
