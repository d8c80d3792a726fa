"""A filter of words from generated text: the last token of a listed word gets no probability right after the word's earlier tokens."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from ingest.acting.decoding import Adjust
from schema.errors import AtlasError

BEFORE = "\n"
"""Text put before each word for tokenising: tokenizers do not join it to the word, and those that add a space to a text add it before this one."""

Forms = frozenset[tuple[int, ...]]
"""The token ids of each form of each word: with and without a space before it."""


def forms_of(tokenizer: PreTrainedTokenizerFast, words: Collection[str]) -> Forms:
    """Tokenise each word twice, with and without a space before it, in the case in which it is given.

    Raises AtlasError for an empty word, and for a tokenizer that joins a new line to the word after it.
    """

    def encode_text(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False).input_ids)

    found, before = set[tuple[int, ...]](), encode_text(BEFORE)
    for word in words:
        if not word.strip():
            raise AtlasError("the words to be filtered contain an empty one; give words of letters")
        for form in (word.strip(), f" {word.strip()}"):
            tokens = encode_text(BEFORE + form)
            if tokens[: len(before)] != before:
                raise AtlasError(f"this tokenizer joins the word {word.strip()!r} to a new line before it, so that no word filter can be built")
            found.add(tuple(tokens[len(before) :]))
    return frozenset(found)


def word_filter(forms: Forms) -> Adjust:
    """Build the filter that keeps listed words from being generated. It also blocks a longer word that begins with the tokens of a listed word."""
    last_after: dict[tuple[int, ...], list[int]] = {}
    for form in sorted(forms):
        last_after.setdefault(form[:-1], []).append(form[-1])

    def adjust(text: Sequence[int], logits: Tensor) -> Tensor:
        never = [last for earlier, lasts in last_after.items() if tuple(text[len(text) - len(earlier) :]) == earlier for last in lasts]
        return logits.index_fill(0, torch.tensor(never, device=logits.device), -torch.inf) if never else logits

    return adjust
