"""Suggestions for a mistyped name."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Suggest near names as '; did you mean …?', or list all names if none is near."""
    names = list(names)
    near = get_close_matches(name, names, n=3, cutoff=0.4)
    return f"; did you mean {', '.join(near)}?" if near else f"; there are {', '.join(names)}"
