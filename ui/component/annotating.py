"""The form: what the texts of a key, or the tokens of a value, have in common."""

import polars as pl
import streamlit as st

from atlas.address import Neuron
from atlas.annotations.adding import add
from atlas.annotations.sheet import MEANINGS, NONE
from atlas.annotations.subjects import SUBJECTS, Address, Pattern, Shown, shown
from schema.errors import AtlasError
from ui import blocks, data

OFFERED = {"key": "Texts that trigger the key", "value": "Tokens that the value promotes"}


def annotations(where: Neuron) -> None:
    """What has been found of this neuron, and a form to add to it."""
    found = data.ask("annotated_patterns", layer=where.layer, item=where.neuron)
    columns = ["subject", "annotator", "annotator_kind", "kind", "description", "n_matches", "n_items", "tokens"]
    blocks.table(found, "annotated_patterns", columns=columns, note="Nobody has annotated this neuron yet.")
    if st.toggle("Add what you see", key="annotate"):
        entry(where)


def entry(where: Neuron) -> None:
    """The form."""
    subject = st.segmented_control("What do you look at?", list(OFFERED), format_func=OFFERED.__getitem__, default="key", key="subject", required=True)
    corpora = data.status().corpora["corpus_id"].to_list()
    corpus = (st.selectbox("Corpus", corpora, key="annotated-corpus") if len(corpora) > 1 else next(iter(corpora), None)) if subject == "key" else None
    address = Address(subject, corpus, where.layer, where.neuron)
    items = shown(data.atlas().con, [address]).get(address, ())
    if not items:
        blocks.empty(f"This atlas has no {address}.")
        return
    st.dataframe(listed(items), hide_index=True, height=300, alt=f"What {address} shows")
    with st.form("pattern", border=False):
        annotator = st.text_input("Your name", key="annotator", persist_state="session")
        kind = st.selectbox("Kind", [*SUBJECTS[subject].kinds, NONE], format_func=lambda k: MEANINGS.get(k, "none: I looked, and they have nothing in common"))
        description = st.text_input("What they have in common")
        ranks = st.multiselect("Ranks that share it", [item.rank for item in items])
        if st.form_submit_button("Keep"):
            keep(address, annotator, None if kind == NONE else Pattern(kind, description, tuple(sorted(ranks))))


def keep(address: Address, annotator: str, pattern: Pattern | None) -> None:
    a = data.atlas()
    try:
        n = add(a.con, a.path, address, annotator, pattern)
    except AtlasError as error:
        blocks.failure(error)
        return
    st.toast(f"Kept: {n} of your patterns for this {address.subject}.")
    st.rerun()


def listed(items: tuple[Shown, ...]) -> pl.DataFrame:
    """What is shown, as a table to read; tokens stand alone, texts with what is around them."""
    rows = {"rank": [i.rank for i in items], "token": [i.token for i in items]}
    if items[0].position_id is not None:
        rows |= {"text before": [i.text_before for i in items], "next token": [i.next_token for i in items]}
    return blocks.readable(pl.DataFrame(rows))
