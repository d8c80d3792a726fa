"""Words cut at white space, as the question word_surprisal cuts them: without labels, in sentences by the rule of ingest/text/sentences.py."""

import re
from bisect import bisect_right

from ingest.text.labelled import Word
from ingest.text.sentences import sentence_starts

WORD = re.compile(r"\S+")


def separated(text: str) -> list[Word]:
    """Punctuation stays with the word that it is written with."""
    starts = sentence_starts(text)
    return [Word(m.start(), m.end(), bisect_right(starts, m.start()) - 1, None, None, None, None, None) for m in WORD.finditer(text)]
