"""Facts as text and as tokens, and those that are shipped."""

import json
from collections import Counter

import pytest
import torch

from ingest.acting.facts import FILE, answer_tokens, read_facts, tokens_within
from schema.errors import AtlasError
from tests.ingest.tiny_models import tiny_tokenizer

torch.set_num_threads(1)

LINE = {"prompt": "see the cat", "subject": "the", "answer": " and", "cluster": "a"}


def test_a_subject_is_the_tokens_that_hold_any_of_it() -> None:
    encoded = tiny_tokenizer()("see the cat", return_offsets_mapping=True)
    words = tiny_tokenizer().convert_ids_to_tokens(encoded["input_ids"])
    assert words == ["s", "e", "e", "Ġthe", "Ġ", "c", "a", "t"]
    spans = encoded["offset_mapping"]
    assert tokens_within(spans, 4, 7) == range(3, 4)
    # "e t", and behind BOS, which has no characters
    assert tokens_within([(0, 0), *spans], 2, 5) == range(3, 5)
    assert tokens_within([(0, 0), *spans], 0, 3) == range(1, 4)


def test_an_answer_is_what_stands_behind_the_prompt_when_both_are_read() -> None:
    tokenizer = tiny_tokenizer()
    assert tokenizer.convert_ids_to_tokens(list(answer_tokens(tokenizer, "see the cat", " and x"))) == ["Ġand", "Ġ", "x"]
    with pytest.raises(AtlasError, match="'see a' and 'n' share a token; begin the answer where a token begins"):
        answer_tokens(tokenizer, "see a", "n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 of the facts is no JSON"),
        ("[1]", "line 2 of the facts must be an object with prompt, subject, answer, cluster, each a non-empty text"),
        (json.dumps(LINE | {"answer": 3}), "line 2 of the facts must be an object"),
        (json.dumps(LINE | {"more": ""}), "line 2 of the facts must be an object"),
        (json.dumps(LINE | {"subject": "dog"}), "line 2 of the facts: its prompt does not contain its subject"),
    ],
)
def test_a_line_that_is_no_fact_is_named(line: str, message: str) -> None:
    with pytest.raises(AtlasError, match=message):
        read_facts(json.dumps(LINE) + "\n" + line)


def test_shipped_facts_have_a_lead_in_and_differ() -> None:
    facts = read_facts(FILE.read_text(encoding="utf-8"))
    assert len(facts) >= 30 and len({fact.prompt for fact in facts}) == len(facts)
    assert all(not fact.prompt.startswith(fact.subject) and fact.answer.startswith(" ") for fact in facts)
    assert all(fact.answer.strip() not in fact.prompt for fact in facts)
    assert min(Counter(fact.cluster for fact in facts).values()) >= 5
