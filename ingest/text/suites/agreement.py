"""The suite that comes with the package: sentence pairs that differ in the grammatical number of one word, drawn by seed.

The pairs test the agreement of subject and verb, with no, one or two nouns of the other number between them (Linzen et al. 2016), of determiner and noun,
and of reflexive and antecedent (Warstadt et al. 2020).
"""

from collections.abc import Callable
from random import Random

from ingest.text.suites.item import Item, pair

SUITE = "agreement"

MOST = 1000
"""Limit on the items of a paradigm: none is drawn twice, and a paradigm has only some thousands."""

PEOPLE = ("senator", "minister", "president", "judge", "officer", "farmer", "soldier", "teacher", "lawyer", "king", "governor", "doctor")
THINGS = ("law", "report", "treaty", "bank", "court", "state", "road", "ship", "school", "letter", "house", "plan", "book", "farm", "river", "market")
PLACED = ("near", "behind", "of", "beside")
VERBS = (("is", "are"), ("was", "were"), ("has been", "have been"))
QUALITIES = ("important", "old", "large", "new", "famous", "strong", "well known", "very small")
ACTIONS = ("saw", "found", "wanted", "described", "remembered", "bought", "sold", "left")
DETERMINERS = (("this", "these"), ("that", "those"))
REFLEXIVE_ACTIONS = ("defended", "praised", "blamed", "described", "protected", "introduced", "trusted", "saved")


def agreement(n_items: int, seed: int) -> list[Item]:
    """Draw `n_items` items of each paradigm, half of them in the singular and half in the plural. A larger `n_items` gives the same items first."""
    return [item for paradigm, draw in PARADIGMS.items() for item in draw_items(paradigm, draw, n_items, seed)]


def draw_items(paradigm: str, draw: Callable[[Random, int], tuple[str, str]], n_items: int, seed: int) -> list[Item]:
    random, found = Random(f"{seed}/{paradigm}"), dict[tuple[str, str], None]()
    while len(found) < n_items:
        found[draw(random, len(found) % 2)] = None
    return [pair(SUITE, paradigm, str(i), good, bad) for i, (good, bad) in enumerate(found)]


def verb(n_attractors: int) -> Callable[[Random, int], tuple[str, str]]:
    """Build the function that draws a pair of sentences, with `n_attractors` nouns of the other number between subject and verb."""

    def draw(random: Random, number: int) -> tuple[str, str]:
        nouns = random.sample(PEOPLE + THINGS, 1 + n_attractors)
        subject = " ".join([f"The {form(nouns[0], number)}", *(f"{random.choice(PLACED)} the {form(noun, 1 - number)}" for noun in nouns[1:])])
        forms, quality = random.choice(VERBS), random.choice(QUALITIES)
        return f"{subject} {forms[number]} {quality}.", f"{subject} {forms[1 - number]} {quality}."

    return draw


def determiner(random: Random, number: int) -> tuple[str, str]:
    before = f"The {form(random.choice(PEOPLE), random.randrange(2))} {random.choice(ACTIONS)} {random.choice(DETERMINERS)[number]}"
    noun = random.choice(THINGS)
    return f"{before} {form(noun, number)}.", f"{before} {form(noun, 1 - number)}."


def reflexive(random: Random, number: int) -> tuple[str, str]:
    before = f"The {form(random.choice(PEOPLE), number)} {random.choice(REFLEXIVE_ACTIONS)}"
    behind, forms = f"in the {random.choice(THINGS)}", ("himself", "themselves")
    return f"{before} {forms[number]} {behind}.", f"{before} {forms[1 - number]} {behind}."


def form(noun: str, number: int) -> str:
    """Inflect a noun. number: 0 for the singular, 1 for the plural."""
    return noun if number == 0 else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


PARADIGMS: dict[str, Callable[[Random, int], tuple[str, str]]] = {
    "verb_no_attractor": verb(0),
    "verb_one_attractor": verb(1),
    "verb_two_attractors": verb(2),
    "determiner_noun": determiner,
    "reflexive": reflexive,
}
