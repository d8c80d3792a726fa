"""Form for annotations: what the texts of a key, or the tokens of a value, have in common."""

from html import escape

import streamlit as st

from atlas.address import Neuron
from atlas.beside.annotations.adding import add
from atlas.beside.annotations.sheet import MEANINGS, NONE, describe_more_texts
from atlas.beside.annotations.subjects import SUBJECTS, Address, Pattern, ShownItem, read_shown_items
from atlas.export.visible import visible_line, visible_text
from schema.errors import AtlasError
from ui import blocks, data
from ui.tokens import in_order

OFFERED = {"key": "Texts that trigger the key", "value": "Tokens that the value promotes"}


def annotations(where: Neuron) -> None:
    """Show the annotations of a neuron, and a form to add one."""
    found = data.ask("annotated_patterns", layer=where.layer, item=where.neuron)
    columns = ["subject", "annotator", "annotator_kind", "kind", "description", "n_matches", "n_items", "tokens"]
    blocks.table(found, "annotated_patterns", columns=columns, note="Nobody has annotated this neuron yet.")
    if st.toggle("Add what you see", key="annotate"):
        show_entry_form(where)


def show_entry_form(where: Neuron) -> None:
    """Show the form, with a tick box beside each text or token. The form is empty again once an entry has been saved."""
    subject = st.segmented_control("What do you look at?", list(OFFERED), format_func=OFFERED.__getitem__, default="key", key="subject", required=True)
    corpora = data.status().corpora["corpus_id"].to_list()
    corpus = (st.selectbox("Corpus", corpora, key="annotated-corpus") if len(corpora) > 1 else next(iter(corpora), None)) if subject == "key" else None
    address = Address(subject, corpus, where.layer, where.neuron)
    items = read_shown_items(data.atlas().con, [address]).get(address, ())
    if not items:
        blocks.explain_empty(f"This atlas has no {address}.")
        return
    # a form of another name is another form, and empty
    name = f"pattern-{address}-{st.session_state.get('kept-patterns', 0)}"
    with st.form(name, border=False):
        annotator = st.text_input("Your name", key="annotator", persist_state="session")
        kind = st.selectbox("Kind", [*SUBJECTS[subject].kinds, NONE], format_func=lambda k: MEANINGS.get(k, "none: I looked, and they have nothing in common"))
        description = st.text_input("What they have in common")
        st.text("Tick those that share it.")
        ranks = tuple(item.rank for item in items if show_tick_box(item, f"{name}-{item.rank}"))
        if st.form_submit_button("Keep"):
            keep(address, annotator, None if kind == NONE else Pattern(kind, description, ranks))


def show_tick_box(item: ShownItem, key: str) -> bool:
    """Show a tick box with an item's rank, and the text or token beside it; return whether it is ticked."""
    tick, text = st.columns([1, 14], vertical_alignment="center")
    is_ticked = tick.checkbox(f"{item.rank}", key=key)
    text.html(line(item))
    return is_ticked


def line(item: ShownItem) -> str:
    """Format an item as HTML: a token, or a text with the tokens before it and the next token."""
    if item.position_id is None:
        return f'<span class="chips"><bdi>{escape(visible_text(item.token))}</bdi></span>'
    following = f" · next <bdi>{escape(visible_text(item.next_token))}</bdi>" if item.next_token else ""
    following += f" · {more}" if (more := describe_more_texts(item)) else ""
    before = item.text_before or ""
    spans = [f"<bdi>{escape(visible_line(before))}</bdi>", f'<bdi class="peak">{escape(visible_line(item.token))}</bdi>']
    read = in_order([before, item.token or ""], spans, ["", ""])
    return f'<div class="strip"><span>{read}{following}</span></div>'


def keep(address: Address, annotator: str, pattern: Pattern | None) -> None:
    a = data.atlas()
    try:
        n = add(a.con, a.path, address, annotator, pattern)
    except AtlasError as error:
        blocks.failure(error)
        return
    st.session_state["kept-patterns"] = st.session_state.get("kept-patterns", 0) + 1
    st.toast(f"Saved. You have {n} patterns for this {address.subject}.")
    st.rerun()
