"""The Prediction room: what an address asks for, put together of panels that are the same for a corpus and for a live prompt."""

import streamlit as st

from ui import blocks, data
from ui.prediction import address, charts, hrefs, lens, listing, live, looking, opened, passage, who
from ui.prediction.address import View
from ui.prediction.source import Source, of_corpus

OF_VIEW = ("position", "prompt", "index", "off", "for", "against", "open", "head")


def show() -> None:
    view = address.read(st.query_params.to_dict())
    ask_for_another(view)
    if view.prompt is not None:
        live.show(view)
    elif view.position is None:
        st.title("Traced predictions")
        listing.show()
    else:
        st.title(f"Prediction at position {view.position}")
        corpus(of_corpus(view, view.position))


def ask_for_another(view: View) -> None:
    """Fields for a position and for a prompt; what is sent from them is the address then."""
    with st.container(horizontal=True, vertical_alignment="bottom"), st.form("another", border=False):
        left, right, sent = st.columns([1, 4, 1], vertical_alignment="bottom")
        position = left.text_input("Position", "" if view.position is None else str(view.position), placeholder="position_id", max_chars=15)
        prompt = right.text_input("or a prompt of your own", view.prompt or "", placeholder="The city council met on Monday to", max_chars=address.MOST_PROMPT)
        if sent.form_submit_button("Show"):
            asked = {"prompt": prompt} if prompt.strip() and prompt != view.prompt else {"position": position} if position.strip() else {"prompt": prompt}
            if asked.get("prompt"):
                live.allow(asked["prompt"])
            go({name: value for name, value in asked.items() if value.strip()})


def go(parameters: dict[str, str]) -> None:
    """To another view of this room; what else the address says, as the atlas it is of, stays."""
    kept = {name: value for name, value in st.query_params.to_dict().items() if name not in OF_VIEW}
    st.query_params.from_dict(kept | parameters)
    st.rerun()


def corpus(source: Source) -> None:
    """A traced position, the answer first."""
    trace = source.about("prediction_trace")
    view, last = source.view, trace.frame.row(-1, named=True)
    passage.context(source, last)
    if view.head is not None:
        blocks.part(looking.panel, source, view.head)
    if view.layer is not None:
        blocks.part(opened.panel, source, view.layer, trace.frame, no_switches)
    st.header("Who made it?")
    blocks.part(who.panel, source, no_switches)
    st.header("Which token leads at every site?")
    grid(source, trace)
    passage.surprisal(source)
    passage.similar(source, trace.frame["layer"].max() if view.layer is None else view.layer)  # type: ignore[arg-type]
    passage.retrieved(source)
    through_the_layers(source, trace)


def no_switches(_: object) -> str:
    return ""


def grid(source: Source, trace: data.Answer) -> None:
    """The leading token at every site, and the events."""
    events = source.about("position_events")
    st.text(sentence(events))
    signs = lens.marks(events.frame.iter_rows(named=True))
    html = lens.grid(trace.frame.iter_rows(named=True), signs, lambda layer: hrefs.of_view(source.view.but(layer=layer)), source.view.layer)
    source.shown(html, trace, "grid")
