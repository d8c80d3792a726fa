"""Limits on a tokenizer, checked in its files before it is loaded: it comes with a model, which anybody may have published.

tokenizer.json is a program of replacements, patterns and tokens. Replacements and tokens are bounded here. Patterns are tried instead
(`ingest/text/tokenizer_trial.py`), unless they are among those that most models have.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from transformers.convert_slow_tokenizer import TikTokenConverter

MOST_ID = 1 << 24
"""Exclusive limit on token ids, some sixty times the largest id of known tokenizers: loading makes a list with an entry for every id."""

MOST_ADDED = 1 << 16
"""Limit on added tokens, which are searched for in a text before the other tokens; the largest known tokenizers have a tenth of it."""

MOST_STEPS = 64
"""Limit on the steps of a normaliser, and of a pre-tokenizer."""

MOST_GROWTH = 64
"""Limit on the characters that a chain of replacements may make of one character; NFKC makes up to 18."""

MOST_SPECIAL = 1000
"""Limit on the special tokens that are put around a text."""

MOST_WORD = 1000
"""Limit on the length, in characters, of a word that is looked up in a word-piece vocabulary: the time grows with its cube. 100 is usual."""

LLAMA_3 = TikTokenConverter("").pattern
CALM = frozenset((LLAMA_3, LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")))
"""Patterns that take time linear in the text: Llama 3's, and Qwen 2's, which cuts between digits. (Built-in patterns of the library appear in no file.)"""

Step = Mapping[str, Any]


def check_tokenizer(file: Path) -> None:
    """Raise ValueError, which says why, for a tokenizer.json that exceeds these limits or drops merges at random."""
    said = mapping(json.loads(file.read_text(encoding="utf-8")))
    model = mapping(said.get("model"))
    vocabulary = model.get("vocab")
    ids = [*vocabulary.values()] if isinstance(vocabulary, dict) else []
    check_added(list_or_empty(said.get("added_tokens")), ids)
    if (n := model.get("max_input_chars_per_word")) is not None and not 0 <= n <= MOST_WORD:
        raise ValueError(f"it looks up words of {n:,} characters, and {MOST_WORD:,} are taken at most (max_input_chars_per_word)")
    if model.get("dropout"):
        raise ValueError(
            f"it leaves out {model['dropout']:.0%} of its merges at random (dropout), and so reads a text differently each time; set dropout to null"
        )
    normalizer, cutters = steps(said.get("normalizer"), "normalizers"), steps(said.get("pre_tokenizer"), "pretokenizers")
    check_steps(normalizer, cutters)
    check_growth(normalizer)
    for step in steps(said.get("post_processor"), "processors"):
        longest = max((len(token["ids"]) for token in mapping(step.get("special_tokens")).values()), default=0)
        if (n := len(list_or_empty(step.get("single"))) * longest) > MOST_SPECIAL:
            raise ValueError(f"it puts up to {n:,} special tokens around a text, and {MOST_SPECIAL:,} are taken at most")


def check_settings(file: Path) -> None:
    """Raise ValueError, which says why, for a tokenizer_config.json whose tokens exceed these limits: it may add tokens to those of tokenizer.json."""
    said = mapping(json.loads(file.read_text(encoding="utf-8")))
    named = [name for key in ("extra_special_tokens", "additional_special_tokens") for name in said.get(key) or ()]
    added = mapping(said.get("added_tokens_decoder") or {})
    check_added([*added, *named], [int(key) for key in added])


def check_added(added: list[Any], ids: list[int]) -> None:
    if (n := len(added)) > MOST_ADDED:
        raise ValueError(f"it adds {n:,} tokens to its vocabulary, and {MOST_ADDED:,} are taken at most")
    largest = max([*ids, *(token["id"] for token in added if isinstance(token, dict) and "id" in token)], default=0)
    if largest >= MOST_ID:
        raise ValueError(f"it has a token with the id {largest:,}, and ids are below {MOST_ID:,}")


def check_steps(normalizer: list[Step], cutters: list[Step]) -> None:
    for found in (normalizer, cutters):
        # each spells bytes as characters of two, and those of the one before again
        if len(found) > MOST_STEPS or sum(step.get("type") == "ByteLevel" for step in found) > 1:
            raise ValueError(f"it changes or cuts a text in {len(found):,} steps, and {MOST_STEPS} are taken at most, of which one may be a ByteLevel step")


def check_growth(normalizer: list[Step]) -> None:
    """Raise ValueError if a text grows too much. Each replacement is tried on the text that it looks for, and all later replacements on the result."""
    replacing = [step for step in normalizer if step.get("type") == "Replace"]
    by_pattern = 1
    for i, step in enumerate(replacing):
        (kind, pattern), content = next(iter(step["pattern"].items())), str(step["content"])
        by_pattern *= max(1, len(content)) if kind == "Regex" else 1
        text = start = content if kind == "Regex" else str(pattern)
        for later in replacing[i:]:
            if text and (looked_for := later["pattern"].get("String")):
                text = text.replace(looked_for, later["content"])
            if len(text) > MOST_GROWTH * max(1, len(start)):
                break
        if len(text) > MOST_GROWTH * max(1, len(start)) or by_pattern > MOST_GROWTH:
            raise ValueError(f"its replacements can turn one character into more than {MOST_GROWTH}")
    for step in normalizer:
        longest = len(step.get("prepend") or "")
        if step.get("type") == "Precompiled":
            # a trie, and behind it the texts that it leads to
            charsmap = base64.b64decode(step["precompiled_charsmap"])
            longest = max(map(len, charsmap[4 + int.from_bytes(charsmap[:4], "little") :].split(b"\0")))
        if longest > 4 * MOST_GROWTH:
            raise ValueError(f"its normaliser inserts {longest:,} characters at once, and {4 * MOST_GROWTH} are taken at most")


def strange_patterns(normalizer: object, pre_tokenizer: object) -> set[str]:
    """Find the regular expressions in a tokenizer's parts that are not in CALM, the list of those that take linear time: others may take any length of time."""
    found = (*steps(normalizer, "normalizers"), *steps(pre_tokenizer, "pretokenizers"))
    patterns = (step.get("pattern") for step in found)
    return {pattern["Regex"] for pattern in patterns if isinstance(pattern, dict) and "Regex" in pattern} - CALM


def steps(part: object, inner: str) -> list[Step]:
    """List the steps of a tokenizer's part, including those of nested sequences; empty if there is no such part."""
    return list(flatten_steps(part, inner)) if part is not None else []


def flatten_steps(part: object, inner: str) -> Iterator[Step]:
    step = mapping(part)
    if step.get("type") != "Sequence":
        yield step
    for each in list_or_empty(step.get(inner)):
        yield from flatten_steps(each, inner)


def mapping(found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"it holds a JSON {type(found).__name__} where an object should be")
    return found


def list_or_empty(found: object) -> list[Any]:
    if not isinstance(found, Iterable) or isinstance(found, str | dict):
        return []
    return list(found)
