"""Prompts of an experiment as tokens that the model reads, and their rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import torch

from ingest.acting.answers import Answer, Prompt, answer_logits, is_top, with_runner_up
from ingest.acting.facts import answer_tokens, tokens_within
from ingest.experiments.base import ExperimentContext
from ingest.experiments.prompt_types import SubjectPrompt
from ingest.live.prompt import cut_prompt
from ingest.model.models import Model
from ingest.text.sequences import Sequence as Tokens
from ingest.text.sequences import bos_token
from schema.errors import AtlasError
from schema.reading import shorten_json

PROMPT = pa.schema(
    [
        ("prompt_id", pa.int32()), ("text", pa.string()), ("cluster", pa.string()), ("n_tokens", pa.int32()), ("has_bos", pa.bool_()),
        ("answer_token_id", pa.int32()), ("foil_token_id", pa.int32()),
    ]
)  # fmt: skip
PROMPT_TOKEN = pa.schema(
    [
        ("prompt_id", pa.int32()), ("index", pa.int32()), ("token_id", pa.int32()), ("char_start", pa.int32()), ("char_end", pa.int32()),
        ("role", pa.string()),
    ]
)  # fmt: skip

N_SHOWN = 3
"""Number of likeliest next tokens that a message names."""


@dataclass(frozen=True, eq=False)
class ReadPrompt:
    """A prompt with its answer. answer: with the runner-up as its foil. note: the model's likeliest tokens, if the answer is not its likeliest continuation."""

    text: str
    cluster: str | None
    tokens: Tokens
    prompt: Prompt
    subject: range | None
    answer: Answer
    note: str | None


def read_prompt(world: ExperimentContext, place: int, text: str, answer: str | None, subject: str | None = None, cluster: str | None = None) -> ReadPrompt:
    """Read a prompt. place: its index in the list. Raises AtlasError without an answer, for a subject not in the text, and as `cut_prompt` does."""
    model = world.model
    try:
        tokens = cut_prompt(model, text, world.bos).sequences[0]
        found = None if subject is None else subject_of(text, subject, tokens)
        if answer is None:
            raise AtlasError(f"it has no answer; the model continues with {describe_likeliest(model, tokens)}: give one")
        prompt = Prompt(tuple(map(int, tokens.token_ids)), answer_tokens(model.tokenizer, text, answer))
    except AtlasError as error:
        raise AtlasError(f"prompt {place}: {error}") from None
    with torch.inference_mode():
        logits = answer_logits(model, prompt)
        note = None if is_top(logits, prompt) else f"the model does not answer {shorten_json(answer)}: it continues with {describe_likeliest(model, tokens)}"
        return ReadPrompt(text, cluster, tokens, prompt, found, with_runner_up(logits, prompt), note)


def subject_of(text: str, subject: str, tokens: Tokens) -> range:
    """Find the tokens of the subject where it first occurs in the text."""
    if not subject or subject not in text:
        raise AtlasError(f"its text does not contain the subject {shorten_json(subject)}: {shorten_json(text)}")
    start = text.index(subject)
    return tokens_within(list(zip(tokens.char_starts.tolist(), tokens.char_ends.tolist(), strict=True)), start, start + len(subject))


def describe_likeliest(model: Model, tokens: Tokens) -> str:
    """Name the likeliest next tokens, with their probabilities."""
    with torch.inference_mode():
        probs = answer_logits(model, Prompt(tuple(map(int, tokens.token_ids)), (0,)))[0].softmax(-1)
    found = zip(*(one.tolist() for one in probs.topk(N_SHOWN)), strict=True)
    return ", ".join(f"{text_of(model, token)} ({prob:.2f})" for prob, token in found)


def text_of(model: Model, token_id: int) -> str:
    return shorten_json(model.tokenizer.decode([token_id]))


def one_token(model: Model, text: str, what: str) -> int:
    """Find the token of a text of one token. what: names the text in messages. Raises AtlasError for a text of several tokens or none."""
    token_ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(token_ids) != 1:
        named = ", ".join(text_of(model, token_id) for token_id in token_ids)
        raise AtlasError(f"{what} {shorten_json(text)} is {len(token_ids)} tokens ({named}); give a text of a single token")
    return int(token_ids[0])


def prompt_tables(world: ExperimentContext, prompts: Sequence[ReadPrompt]) -> dict[str, pa.Table]:
    """Build the rows of `prompt` and `prompt_token`."""
    has_bos = bos_token(world.model.tokenizer, world.bos) is not None
    rows = [
        {
            "prompt_id": i, "text": one.text, "cluster": one.cluster, "n_tokens": len(one.tokens.token_ids), "has_bos": has_bos,
            "answer_token_id": one.answer.tokens[0], "foil_token_id": one.answer.foil,
        }
        for i, one in enumerate(prompts)
    ]  # fmt: skip
    tokens = [token for i, one in enumerate(prompts) for token in token_rows(i, one.tokens, one.subject)]
    return {"prompt": pa.Table.from_pylist(rows, PROMPT), "prompt_token": pa.Table.from_pylist(tokens, PROMPT_TOKEN)}


def token_rows(prompt_id: int, tokens: Tokens, subject: range | None) -> list[dict[str, object]]:
    ids, starts, ends = (x.tolist() for x in (tokens.token_ids, tokens.char_starts, tokens.char_ends))
    of = zip(ids, starts, ends, roles(len(ids), subject), strict=True)
    return [{"prompt_id": prompt_id, "index": i, "token_id": k, "char_start": s, "char_end": e, "role": role} for i, (k, s, e, role) in enumerate(of)]


def roles(n: int, subject: range | None) -> list[str]:
    """Name the role of each of n tokens in its prompt. The token of a one-token subject is subject_last."""
    found = ["other"] * (n - 1) + ["last"]
    if subject is None:
        return found
    found[subject.stop : n - 1] = ["after_subject"] * (n - 1 - subject.stop)
    found[subject.start : subject.stop] = (
        ["subject_first"] + ["subject_middle"] * (len(subject) - 2) + ["subject_last"] if len(subject) > 1 else ["subject_last"]
    )
    return found


def read_subjects(world: ExperimentContext, prompts: Sequence[SubjectPrompt]) -> list[ReadPrompt]:
    """Read the prompts; a prompt has a note if the model's answer is not the one given. Raises AtlasError if all prompts have a note."""
    read = [read_prompt(world, i, one.text, one.answer, one.subject, one.cluster) for i, one in enumerate(prompts)]
    if all(one.note for one in read):
        raise AtlasError(f"the model answers none of the {len(read)} prompts as given; prompt 0: {read[0].note}")
    return read
