"""Starts of sentences, by a rule that can be stated in three lines."""

import re

ABBREVIATIONS = frozenset(
    ["mr", "mrs", "ms", "dr", "st", "prof", "gen", "col", "capt", "lt", "sgt", "sen", "rep", "gov", "hon", "rev", "messrs", "vs", "cf", "viz", "e.g", "i.e"]
)
"""Words after which a full stop seldom ends a sentence, in lower case."""

CLOSERS = "\"'”’»)\\]}"
OPENERS = "\"'“‘«([{"

BOUNDARY = re.compile(
    rf"(?P<stop>(?<![.!?…])[.!?…]++[{CLOSERS}]*+)\s++"  # a stop, perhaps behind it closing quotes, and white space
    rf"|[。！？]++[」』）{CLOSERS}]*+\s*+"  # East Asian scripts put no space behind a stop
    r"|\n[^\S\n]*+\n\s*+"  # a blank line
)
LAST_WORD = re.compile(r"[^\W_]+(?:\.[^\W_]+)*\Z")


def sentence_starts(text: str) -> list[int]:
    """Find the offsets at which the sentences of a text start, ascending; the first is 0.

    A sentence ends at a blank line, at 。！？, or at a run of . ! ? … that white space follows, closing quotes or brackets included.
    A run of . ! ? … ends no sentence if the next word begins in lower case, or if the run is one full stop after a single capital letter
    (an initial) or after one of ABBREVIATIONS. White space belongs to the sentence before it.
    """
    starts = [0]
    starts.extend(match.end() for match in BOUNDARY.finditer(text) if 0 < match.end() < len(text) and _ends_sentence(text, match))
    return starts


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    stop = match["stop"]
    if stop is None or match.group().count("\n") > 1:
        return True
    if text[match.end() : match.end() + 4].lstrip(OPENERS)[:1].islower():
        return False
    return stop != "." or not _is_abbreviation(text[max(0, match.start() - 12) : match.start()])


def _is_abbreviation(before: str) -> bool:
    """Tell whether the text before a full stop ends in an initial or in one of ABBREVIATIONS."""
    word = LAST_WORD.search(before)
    return word is not None and (word.group().lower() in ABBREVIATIONS or (len(word.group().split(".")[-1]) == 1 and word.group()[-1].isupper()))
