"""Facts to trace: a prompt, the subject within it and the answer that should follow, as text and as a model's tokens.

`facts.jsonl` holds facts that SmolLM2-135M-Instruct answers. Each prompt has a lead-in, so that its subject is not at index 0. The facts were chosen because
that model answers them, so its score on them is no measure of how much it knows.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from schema.errors import AtlasError

FILE = Path(__file__).with_name("facts.jsonl")


@dataclass(frozen=True)
class Fact:
    """A fact. subject: part of the prompt, at its first occurrence. answer: with the space before it, if any. cluster: name shared by facts of one wording."""

    prompt: str
    subject: str
    answer: str
    cluster: str


def read_facts(text: str) -> list[Fact]:
    """Read facts from a text with one JSON object per line, of prompt, subject, answer and cluster. Raises AtlasError that names the first wrong line."""
    return [fact_of(line, number) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]


def fact_of(line: str, number: int) -> Fact:
    names = [field.name for field in fields(Fact)]
    try:
        given = json.loads(line)
    except ValueError as error:
        raise AtlasError(f"line {number} of the facts is no JSON: {error}") from None
    if not isinstance(given, dict) or given.keys() != set(names) or not all(isinstance(given[name], str) and given[name] for name in names):
        raise AtlasError(f"line {number} of the facts must be an object with {', '.join(names)}, each a non-empty text")
    if given["subject"] not in given["prompt"]:
        raise AtlasError(f"line {number} of the facts: its prompt does not contain its subject")
    return Fact(**given)


def tokens_within(spans: Sequence[tuple[int, int]], start: int, end: int) -> range:
    """Find the indices of the tokens that contain a character of the text from start to end. spans: start and end of each token; BOS has an empty span."""
    held = [index for index, (begin, stop) in enumerate(spans) if begin < end and stop > start and stop > begin]
    return range(held[0], held[-1] + 1)


def answer_tokens(tokenizer: PreTrainedTokenizerFast, prompt: str, answer: str) -> tuple[int, ...]:
    """Tokenise an answer as a continuation of its prompt. Raises AtlasError if one token spans the end of the prompt and the start of the answer."""
    token_ids, both = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, prompt + answer))
    if both[: len(token_ids)] != token_ids or len(both) == len(token_ids):
        raise AtlasError(f"'{prompt}' and '{answer}' share a token; begin the answer where a token begins, most often with the space before it")
    return tuple(both[len(token_ids) :])
