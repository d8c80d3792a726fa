"""Test templates in YAML: texts with slots, and what the model should do with them (Ribeiro et al. 2020, without a classifier).

There are three kinds of test. mft: the expected continuation is more probable than each rival. inv: a perturbation of the text does not change the
prediction at the text's end. dir: a change of the text raises or lowers the log-probability of a continuation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from ingest.text.suites.item import AFTER, SCORED, Item, Sentence
from ingest.text.suites.perturbations import PERTURBATIONS, perturb_text
from ingest.text.suites.reading import check_fields, mapping, read_text, require_list, sentence
from schema.errors import AtlasError

SLOT = re.compile(r"\{([^{}]*)\}")
MOST_ITEMS, MOST_BYTES, MOST_DEPTH = 10_000, 2**20, 16
"""Limits: items of a test, whose slots are filled in every way; characters of a file; depth of nesting, in which PyYAML's time grows quadratically."""

NUMBERS, MOST_DIGITS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"), 30
"""YAML's tags of numbers, and the limit on the characters of a number."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""YAML loader: the one in C if the library has it, since the one in Python takes half a minute for a megabyte."""

FIELDS = {
    "mft": (("template", "expected", "rivals"), ()),
    "inv": (("template", "perturbations", "delta"), ("synonyms",)),
    "dir": (("template", "changed", "continuation", "expectation", "delta"), ()),
}
"""Kind of test → the fields that it needs, and further fields that it may have."""

Filling = Mapping[str, str]


def read_templates(path: Path, suite: str, seed: int) -> Iterator[Item]:
    """Read the tests of one file: `tests` lists them, each a paradigm, and `slots` gives the values of their slots."""
    where = str(path)
    whole = mapping(where, yaml_value(where, read_text(path)))
    check_fields(where, whole, ("tests",), ("suite", "slots"))
    slots = {name: values(f"{where}, slot {name}", given) for name, given in mapping(f"{where}, slots", whole.get("slots", {})).items()}
    suite = sentence(f"{where}, suite", whole.get("suite", suite))
    for number, each in enumerate(require_list(f"{where}, tests", whole["tests"]), start=1):
        test = mapping(f"{where}, test {number}", each)
        name, kind = (sentence(f"{where}, {field} of test {number}", test.get(field)) for field in ("name", "kind"))
        if kind not in FIELDS:
            raise AtlasError(f"{where}, test {name}: kind {kind!r}; there are {', '.join(FIELDS)}")
        needed, more = FIELDS[kind]
        check_fields(f"{where}, test {name}", test, (*needed, "name", "kind"), more)
        yield from MAKERS[kind](f"{where}, test {name}", suite, name, test, slots, seed)


def yaml_value(where: str, text: str) -> object:
    """Parse YAML. Raises AtlasError for unknown tags, for aliases (which can expand to more than memory holds), and for a name that a mapping has twice."""
    if len(text) > MOST_BYTES:
        raise AtlasError(f"{where}: {len(text):,} characters, and {MOST_BYTES:,} are read at most; divide it")
    try:
        # first, as the library written in C ends its process where nodes lie too deep
        check_events(where, yaml.parse(text, LOADER))
        loader = LOADER(text)
        try:
            node = loader.get_single_node()
            check_nodes(where, node)
            found: object = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise AtlasError(f"{where}: no YAML ({' '.join(str(error).split())[:200]})") from error
    return found


def check_events(where: str, events: Iterable[yaml.Event]) -> None:
    """Raise AtlasError at the first alias, or where nesting exceeds MOST_DEPTH; no event after that is read."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise AtlasError(f"{where}: it has an alias (*), and aliases are not read; write out what it stands for")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise AtlasError(f"{where}: it is nested deeper than {MOST_DEPTH}, and no test needs that")


def check_nodes(where: str, node: object) -> None:
    """Raise AtlasError for a mapping that has a name twice, since one value would be lost, and for a number of more than MOST_DIGITS characters.

    For a number in base 60 (1:59:59), PyYAML takes time quadratic in its length.
    """
    if isinstance(node, yaml.ScalarNode):
        if node.tag in NUMBERS and len(node.value) > MOST_DIGITS:
            raise AtlasError(f"{where}: it has a number of {len(node.value):,} characters, and {MOST_DIGITS} are read at most")
    elif isinstance(node, yaml.MappingNode):
        seen = set[str]()
        for name in (key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if name in seen:
                raise AtlasError(f"{where}: it has the name {name!r} twice")
            seen.add(name)
        for _, value in node.value:
            check_nodes(where, value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            check_nodes(where, value)


def values(where: str, given: object) -> list[Filling]:
    """Read the values of a slot, each as part → text. A value that is a mapping has several parts; a value that is plain text has the one part ''."""
    found: list[Filling] = [
        {part: sentence(f"{where}, {part}", text) for part, text in mapping(where, each).items()} if isinstance(each, dict) else {"": sentence(where, each)}
        for each in require_list(where, given)
    ]
    if any(each.keys() != found[0].keys() for each in found):
        raise AtlasError(f"{where}: every value must have the same parts as the first: {', '.join(found[0]) or 'plain text'}")
    return found


def fillings(where: str, texts: list[str], slots: Mapping[str, list[Filling]]) -> list[Filling]:
    """List every way to fill the slots that the texts name, in the order of `slots`. Each filling maps the name in braces, slot or slot.part, to a text."""
    named = {name for text in texts for name in SLOT.findall(text)}
    there = {f"{slot}.{part}" if part else slot for slot, given in slots.items() for part in given[0]}
    if unknown := sorted(named - there):
        raise AtlasError(f"{where}: no slot {{{unknown[0]}}}; there are {', '.join(sorted(there)) or 'none'}")
    used = {slot: given for slot, given in slots.items() if slot in {name.partition(".")[0] for name in named}}
    n = 1
    for given in used.values():
        n *= len(given)
    if n > MOST_ITEMS:
        raise AtlasError(f"{where}: its slots can be filled in {n:,} ways, and {MOST_ITEMS:,} are made at most")
    return [
        {f"{slot}.{part}" if part else slot: text for slot, one in zip(used, each, strict=True) for part, text in one.items()}
        for each in product(*used.values())
    ]


def fill(text: str, filling: Filling) -> str:
    return SLOT.sub(lambda found: filling[found[1]], text)


def continued_sentence(role: str, text: str, continuation: str) -> Sentence:
    return Sentence(role, text + continuation, {SCORED: (len(text), len(text + continuation))})


def texts_of(where: str, test: Mapping[str, object], *names: str) -> list[str]:
    return [sentence(f"{where}, {name}", test[name]) for name in names]


def threshold(where: str, test: Mapping[str, object]) -> float:
    delta = test["delta"]
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 <= delta < float("inf"):
        raise AtlasError(f"{where}: delta is {delta!r}, and must be a number of nats, 0 or more")
    return float(delta)


def mft(where: str, suite: str, name: str, test: Mapping[str, object], slots: Mapping[str, list[Filling]], _: int) -> Iterator[Item]:
    template, expected = texts_of(where, test, "template", "expected")
    rivals = [sentence(f"{where}, rivals", each) for each in require_list(f"{where}, rivals", test["rivals"])]
    for i, filling in enumerate(fillings(where, [template, expected, *rivals], slots)):
        text, wanted = fill(template, filling), fill(expected, filling)
        # a slot may make a rival of what is expected
        others = [other for other in dict.fromkeys(fill(rival, filling) for rival in rivals) if other != wanted]
        if not others:
            raise AtlasError(f"{where}: no rival is left for {text + wanted!r}: every rival equals what is expected")
        yield Item("mft", suite, name, str(i), (continued_sentence("expected", text, wanted), *(continued_sentence("rival", text, other) for other in others)))


def direction(where: str, suite: str, name: str, test: Mapping[str, object], slots: Mapping[str, list[Filling]], _: int) -> Iterator[Item]:
    template, changed, continuation, way = texts_of(where, test, "template", "changed", "continuation", "expectation")
    if way not in ("up", "down"):
        raise AtlasError(f"{where}: the expectation is {way!r}; it must be 'up' or 'down'")
    delta = threshold(where, test)
    for i, filling in enumerate(fillings(where, [template, changed, continuation], slots)):
        before, after, behind = (fill(text, filling) for text in (template, changed, continuation))
        if before == after:
            raise AtlasError(f"{where}: {before!r} is not changed")
        yield Item("dir", suite, name, str(i), (continued_sentence("original", before, behind), continued_sentence("changed", after, behind)), way, delta)


def invariance(where: str, suite: str, name: str, test: Mapping[str, object], slots: Mapping[str, list[Filling]], seed: int) -> Iterator[Item]:
    (template,), delta = texts_of(where, test, "template"), threshold(where, test)
    names = [sentence(f"{where}, perturbations", each) for each in require_list(f"{where}, perturbations", test["perturbations"])]
    if unknown := [each for each in names if each not in PERTURBATIONS]:
        raise AtlasError(f"{where}: no perturbation {unknown[0]!r}; there are {', '.join(PERTURBATIONS)}")
    synonyms = {word: sentence(f"{where}, synonyms", by) for word, by in mapping(f"{where}, synonyms", test.get("synonyms", {})).items()}
    done = set[str | None]()
    for i, filling in enumerate(fillings(where, [template], slots)):
        text = fill(template, filling)
        edited = {each: perturb_text(text, each, synonyms, f"{seed}/{name}/{i}") for each in dict.fromkeys(names)}
        sentences = [Sentence("perturbed", other, {AFTER: (end, len(other))}, each) for each, found in edited.items() if found for other, end in [found]]
        done.update(s.perturbation for s in sentences)
        if not sentences:
            raise AtlasError(f"{where}: no perturbation finds anything to edit in {text!r}")
        yield Item("inv", suite, name, str(i), (Sentence("original", text), *sentences), None, delta)
    if idle := [each for each in names if each not in done]:
        raise AtlasError(f"{where}: the perturbation {idle[0]} finds nothing to edit in any text; leave it out")


MAKERS = {"mft": mft, "inv": invariance, "dir": direction}
