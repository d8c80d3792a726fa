"""Pairs of prompts to compare: a clean one and a corrupted one."""

from dataclasses import replace

from ingest.acting.answers import Answer
from ingest.experiments.base import ExperimentContext
from ingest.experiments.prompts import ReadPrompt, one_token, read_prompt
from schema.errors import AtlasError


def read_pair(
    world: ExperimentContext, place: int, text: str, corrupted: str, answer: str | None, foil: str | None, cluster: str | None
) -> tuple[ReadPrompt, ReadPrompt]:
    """Read the clean and the corrupted prompt, which share an answer and a foil.

    Raises AtlasError for an answer or foil of several tokens, and for texts of unequal length.
    """
    words = (answer, foil)
    clean, other = (read_prompt(world, place, one, word, cluster=cluster) for one, word in zip((text, corrupted), words, strict=True))
    try:
        first, second = (one_token(world.model, str(word), name) for word, name in zip(words, ("the answer", "the foil"), strict=True))
    except AtlasError as error:
        raise AtlasError(f"prompt {place}: {error}") from None
    lengths = [len(one.tokens.token_ids) for one in (clean, other)]
    if lengths[0] != lengths[1]:
        raise AtlasError(
            f"prompt {place}: its texts have {lengths[0]} and {lengths[1]} tokens; patching replaces states position by position: give equal lengths"
        )
    held = Answer((first,), second)
    return replace(clean, answer=held), replace(other, answer=held)
