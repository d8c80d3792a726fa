"""Items, the units of a test, and the sentences that each item compares. Every sentence becomes a document of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest.text.corpora.document import Document

CRITICAL, SCORED, AFTER = "critical", "scored", "after"
"""Names of regions that scores use: the words in which a pair differs; the only text that is scored; the text after an edit, equal in both sentences."""


@dataclass(frozen=True)
class Sentence:
    """One text of an item. regions: name → characters [start, end), without the regions that have no text. perturbation: name of an invariance test's edit."""

    role: str
    text: str
    regions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    perturbation: str | None = None


@dataclass(frozen=True)
class Item:
    """A test case, which passes or fails as a whole. kind: one of schema.terms.TEST_KINDS. delta: threshold of an inv or a dir, in nats."""

    kind: str
    suite: str
    paradigm: str
    name: str
    sentences: tuple[Sentence, ...]
    expectation: str | None = None
    delta: float | None = None

    def documents(self) -> list[Document]:
        return [self.document(sentence) for sentence in self.sentences]

    def document(self, sentence: Sentence) -> Document:
        said: dict[str, object] = {
            "kind": self.kind, "suite": self.suite, "paradigm": self.paradigm, "item": self.name, "role": sentence.role,
            "expectation": sentence.perturbation or self.expectation, "delta": self.delta,
            "regions": {name: list(span) for name, span in sentence.regions.items()},
        }  # fmt: skip
        return Document(f"{self.paradigm}/{self.name}/{sentence.perturbation or sentence.role}", sentence.text, said)


def pair(suite: str, paradigm: str, name: str, good: str, bad: str) -> Item:
    """Build a minimal pair. Its critical region is the stretch of words in which the two sentences differ, if both have such words."""
    spans = differing_words(good, bad)
    regions: tuple[dict[str, tuple[int, int]], ...] = ({}, {}) if spans is None else tuple({CRITICAL: span} for span in spans)
    return Item("pair", suite, paradigm, name, tuple(Sentence(role, text, of) for role, text, of in zip(("good", "bad"), (good, bad), regions, strict=True)))


def differing_words(one: str, other: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Find the characters that remain in each text when the words that both texts begin with and end with are removed; None if a text has no word left."""
    a, b = words(one), words(other)
    shortest = min(len(a), len(b))
    n_before = next((i for i in range(shortest) if one[slice(*a[i])] != other[slice(*b[i])]), shortest)
    n_after = next((i for i in range(shortest - n_before) if one[slice(*a[-1 - i])] != other[slice(*b[-1 - i])]), shortest - n_before)
    left = [spans[n_before : len(spans) - n_after] for spans in (a, b)]
    return ((left[0][0][0], left[0][-1][1]), (left[1][0][0], left[1][-1][1])) if all(left) else None


def words(text: str) -> list[tuple[int, int]]:
    """Find the characters [start, end) of each word, cut at white space."""
    spans, end = [], 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return spans
