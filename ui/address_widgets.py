"""Widgets whose values are stored in the page's address. A value in the address that a widget cannot take raises an error, and no default replaces it."""

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import streamlit as st

from schema.errors import AtlasError, what_there_is
from ui import data


def ask_whole_number(label: str, key: str, **options: Any) -> int | None:
    """Ask for a whole number or none, without a check that the atlas has it. Raises AtlasError if the address has something else under `key`."""
    asked = st.query_params.get(key, "")
    # first: a widget of whole numbers cannot take what overflows, such as 1e400
    if asked and not re.fullmatch(r"-?[0-9]{1,15}", asked):
        raise AtlasError(f"the address asks for {key} {asked[:40]}, which is not a whole number")
    value: int | None = st.number_input(label, step=1, key=key, bind="query-params", **options)
    return value


def ask_corpus(*, of_one_text: bool = False) -> int | None:
    """Ask for a corpus_id, None for all. A single corpus is asked for only if the address names one. `of_one_text`: start with the first corpus."""
    corpora = data.status().corpora["corpus_id"]
    if len(corpora) < 2 and "corpus" not in st.query_params:
        return None
    first = corpora.min() if of_one_text else None
    return ask_whole_number("Corpus (corpus_id)", "corpus", value=first, placeholder="none" if of_one_text else "all", width=180)


def ask_word(label: str, key: str, words: Sequence[str], default: str | None = None, **options: Any) -> str:
    """Ask for one of a few words, the first by default. Raises AtlasError if the address has another word under `key`."""
    asked = st.query_params.get(key, "")
    value = st.segmented_control(label, words, default=default or words[0], key=key, bind="query-params", required=True, **options)
    if asked and asked not in words:
        raise AtlasError(f"no {key} {asked}; {what_there_is(', '.join(words))}")
    return value


def ask_words(label: str, key: str, known: Sequence[str], **options: Any) -> list[str]:
    """Ask for any number of known words. Raises AtlasError if the address has an unknown one under `key`."""
    strange = [asked for asked in st.query_params.get_all(key) if asked not in known]
    chosen = st.multiselect(label, known, key=key, bind="query-params", **options)
    if strange:
        raise AtlasError(f"no {key} {strange[0]}; {what_there_is(', '.join(known))}")
    return chosen


def ask_toggle(label: str, key: str, value: bool) -> bool:
    """Ask for on or off. Raises AtlasError if the address has neither under `key`."""
    asked = st.query_params.get(key, "")
    chosen = st.toggle(label, value, key=key, bind="query-params")
    if asked and asked.lower() not in ("true", "false"):
        raise AtlasError(f"no {key} {asked}; it is true or false")
    return chosen


def ask_option(label: str, key: str, known: Sequence[str], default: str, *, changes: bool = False, **options: Any) -> str:
    """Ask for one of many words. Raises AtlasError if the address has another word under `key`.

    changes: whether another widget changes the words; then only the address that the page opens with is checked.
    """
    asked = "" if changes and key in st.session_state else st.query_params.get(key, "")
    chosen = st.selectbox(label, known, known.index(default), key=key, bind="query-params", **options)
    if asked and asked not in known:
        raise AtlasError(f"no {key} {asked}; {what_there_is(', '.join(known))}")
    return chosen


def ask_page(n: int, key: str) -> int:
    """Ask which of `n` pages to show, from 1; page 1 if there is only one. Raises AtlasError if the opening address names a page that does not exist."""
    asked = st.query_params.get(key, "1") if key not in st.session_state else "1"
    chosen = st.pagination(n, key=key, bind="query-params") if n > 1 else 1
    if not (re.fullmatch(r"[0-9]{1,9}", asked) and 1 <= int(asked) <= n):
        raise AtlasError(f"no page {asked[:40]}: there {'is one' if n == 1 else f'are {n}'}")
    return chosen


def ask_from_list(label: str, key: str, lines: Mapping[str, str]) -> str:
    """Ask for one entry of a list that depends on another choice. Raises AtlasError if the opening address names an unlisted entry.

    lines: entry → a line about it.
    """
    asked = st.query_params.get(key, "") if key not in st.session_state else ""
    chosen = st.radio(label, list(lines), captions=list(lines.values()), key=key, bind="query-params")
    if asked and asked not in lines:
        raise AtlasError(f"no {key} {asked}; {what_there_is(', '.join(lines))}")
    return chosen or next(iter(lines))


def ask_number(label: str, key: str, value: float | None = None, *, min_value: float | None = None, **options: Any) -> float | None:
    """Ask for a number or none. Raises AtlasError if the address has something else under `key`, or less than `min_value`."""
    asked = st.query_params.get(key, "")
    # first: the widget cannot take what it does not allow
    if asked and not is_finite_number(asked):
        raise AtlasError(f"the address asks for {key} {asked[:40]}, which is not a number")
    if asked and min_value is not None and float(asked) < min_value:
        raise AtlasError(f"the address asks for {key} {asked[:40]}, which is below {min_value:g}")
    chosen: float | None = st.number_input(label, value=value, min_value=min_value, step=0.01, format="%g", key=key, bind="query-params", **options)
    return chosen


def is_finite_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False
