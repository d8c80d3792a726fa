"""Words cut at white space, as the question word_surprisal cuts them: without labels, in sentences by the rule of ingest/text/sentences.py."""

import re
from bisect import bisect_right
from itertools import takewhile

from ingest.text.labelled import Word
from ingest.text.sentences import sentence_starts

WORD = re.compile(r"\S+")

LOOK_AHEAD = 4
"""Characters of the next sentence on which it depends whether one ends."""


def split_words(text: str, read: int) -> list[Word]:
    """Find the words that begin in the first `read` characters. Punctuation stays with the word that it is written with."""
    starts = sentence_starts(text[: read + LOOK_AHEAD])
    words = takewhile(lambda m: m.start() < read, WORD.finditer(text))
    return [Word(m.start(), m.end(), bisect_right(starts, m.start()) - 1, None, None, None, None, None) for m in words]
