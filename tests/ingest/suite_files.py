"""A small suite of every kind, in words that the tiny tokenizer knows."""

import json
from pathlib import Path

PAIRS = [
    # sentences of unequal numbers of tokens, a pair without words of its own on one side, one that differs at its first word
    {"sentence_good": "The people of the world.", "sentence_bad": "The union and the people of the union.", "UID": "one", "pairID": 0},
    {"sentence_good": "The first of the people.", "sentence_bad": "The first of people.", "UID": "one", "pairID": "1"},
    {"sentence_good": "The world speaks.", "sentence_bad": "A world speaks.", "UID": "two", "pairID": "0"},
    {"sentence_good": "The people here", "sentence_bad": "The people here and here", "UID": "one", "pairID": "2"},
]

WINOGRAD = [{"sentence": "The people of the union and the world: the _ speak first.", "option1": "people", "option2": "world", "answer": "1", "qID": "q"}]


def condition(name: str, *contents: str) -> dict:
    return {"condition_name": name, "regions": [{"region_number": i, "content": content} for i, content in enumerate(contents, start=1)]}


FORMULAS = ["(2;%match%) < (2;%mismatch%)", "[((3;%match%) + (1;%match%)) - (1;%mismatch%) > 0.5] | (*;%match%) < (*;%mismatch%)"]

GYM = {
    "meta": {"name": "number", "metric": "sum"},
    "region_meta": {"1": "subject", "2": "verb", "3": "rest", "4": "none"},
    "predictions": [{"type": "formula", "formula": formula} for formula in FORMULAS],
    "items": [
        {"item_number": 1, "conditions": [condition("match", "The people", "speak", "first", ""), condition("mismatch", "The people", "speaks", "first", "")]},
        {"item_number": 2, "conditions": [condition("match", "The world", "speaks", "to", ""), condition("mismatch", "The world", "speak", "to", "")]},
    ],
}

TEMPLATES = """
suite: manners
slots:
  who: [people, union]
  place:
    - {name: world, end: " there"}
    - {name: text, end: " here"}
tests:
  - name: end
    kind: mft
    template: "The {who} of the {place.name} speak"
    expected: "{place.end}"
    rivals: [" here", " there", " the"]
  - name: typo
    kind: inv
    template: "The {who} do not speak of the world"
    perturbations: [letters, case, space, contraction, synonym]
    synonyms: {world: union, speak: go}
    delta: 0.05
  - name: praise
    kind: dir
    template: "The first {who}"
    changed: "The created {who}"
    continuation: " of the world"
    expectation: down
    delta: 0.01
"""


def written_suite(folder: Path) -> tuple[str, ...]:
    """The files, as `--suite` names them."""
    suite = folder / "suite"
    suite.mkdir(exist_ok=True)
    (suite / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    (suite / "winograd.jsonl").write_text("\n".join(json.dumps(row) for row in WINOGRAD))
    (suite / "gym.json").write_text(json.dumps(GYM))
    (suite / "manners.yaml").write_text(TEMPLATES)
    return (f"{suite}/*.jsonl", str(suite / "gym.json"), str(suite / "manners.yaml"))
