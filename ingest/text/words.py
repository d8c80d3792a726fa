"""English function words, by class: the list behind token.is_stop_word. They carry grammar rather than a subject."""

PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves one oneself who whom whose which what
"""
DETERMINERS = "a an the this that these those some any no each every either neither both all another other such few many much more most several own same"
PREPOSITIONS = """
of in on at by for from to with without within about above across after against along among around before behind below beneath
beside between beyond during into onto out over off per since through throughout toward towards under until up upon down via
"""
CONJUNCTIONS = "and or but nor so yet if unless because although though while whereas whether as than when where why how once lest"
AUXILIARIES = """
am is are was were be been being do does did doing done have has had having can could may might must shall should will would ought
cannot
"""
ADVERBS = "not never only very too also just even still then there here now again ever rather quite thus hence else"
CONTRACTIONS = "'s 't 'd 'm 're 've 'll n't don't doesn't didn't isn't aren't wasn't weren't won't can't"

STOP_WORDS = frozenset(f"{PRONOUNS} {DETERMINERS} {PREPOSITIONS} {CONJUNCTIONS} {AUXILIARIES} {ADVERBS} {CONTRACTIONS}".split())


def is_stop_word(text: str) -> bool:
    """Tell whether a token is one function word, whatever its case, surrounding spaces and shape of apostrophe."""
    return text.strip().replace("\u2019", "'").casefold() in STOP_WORDS
