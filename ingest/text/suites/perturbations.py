"""Small edits that keep the meaning of a text. A model's prediction at the text's end should not change (Ribeiro et al. 2020, invariance tests).

Each perturbation edits one place, drawn by seed, before the last word, so that both texts end with the same word.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import NamedTuple

CONTRACTIONS = {
    "is not": "isn't", "are not": "aren't", "was not": "wasn't", "were not": "weren't", "do not": "don't", "does not": "doesn't", "did not": "didn't",
    "cannot": "can't", "could not": "couldn't", "would not": "wouldn't", "should not": "shouldn't", "has not": "hasn't", "have not": "haven't",
    "had not": "hadn't", "will not": "won't", "it is": "it's", "that is": "that's", "there is": "there's", "he is": "he's", "she is": "she's",
    "I am": "I'm", "they are": "they're", "we are": "we're", "you are": "you're",
}  # fmt: skip
"""Full form → contraction. Edits go both ways: full forms are contracted, and contractions are written out."""

WORD = re.compile(r"[^\W\d_]+")
SPACE = re.compile(r"(?<=\S) (?=\S)")


class Edit(NamedTuple):
    """Replacement of the characters [start, end) by another text."""

    start: int
    end: int
    by: str


def letters(text: str, _: Mapping[str, str]) -> Iterator[Edit]:
    """Yield each edit that swaps two neighbouring, different letters of a word; its first letter stays in place."""
    for word in WORD.finditer(text):
        for i in range(word.start() + 1, word.end() - 1):
            if text[i] != text[i + 1]:
                yield Edit(i, i + 2, text[i + 1] + text[i])


def case(text: str, _: Mapping[str, str]) -> Iterator[Edit]:
    """Yield each edit that puts a word in capitals, or in small letters if it has any capital."""
    for word in WORD.finditer(text):
        shown = word[0].upper() if word[0].islower() else word[0].lower()
        if shown != word[0] and len(shown) == len(word[0]):
            yield Edit(word.start(), word.end(), shown)


def space(text: str, _: Mapping[str, str]) -> Iterator[Edit]:
    """Yield each edit that doubles a space."""
    return (Edit(found.start(), found.end(), "  ") for found in SPACE.finditer(text))


def contraction(text: str, _: Mapping[str, str]) -> Iterator[Edit]:
    return replacement_edits(text, {**CONTRACTIONS, **{short: whole for whole, short in CONTRACTIONS.items()}})


def synonym(text: str, synonyms: Mapping[str, str]) -> Iterator[Edit]:
    """Yield each edit that replaces a word of the user's list by its synonym."""
    return replacement_edits(text, synonyms)


def replacement_edits(text: str, words: Mapping[str, str]) -> Iterator[Edit]:
    for word, by in words.items():
        for found in re.finditer(rf"\b{re.escape(word)}\b", text):
            yield Edit(found.start(), found.end(), by)


PERTURBATIONS: dict[str, Callable[[str, Mapping[str, str]], Iterator[Edit]]] = {
    "letters": letters, "case": case, "space": space, "contraction": contraction, "synonym": synonym,
}  # fmt: skip


def perturb_text(text: str, name: str, synonyms: Mapping[str, str], seed: str) -> tuple[str, int] | None:
    """Edit one place of the text. Return the new text and the index in it at which the edit ends; None if nothing before the last word can be edited."""
    last = len(text.rstrip()) - len(text.split()[-1])
    edits = [edit for edit in PERTURBATIONS[name](text, synonyms) if edit.end <= last]
    if not edits:
        return None
    edit = Random(f"{seed}/{name}").choice(edits)
    return text[: edit.start] + edit.by + text[edit.end :], edit.start + len(edit.by)
