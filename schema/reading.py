"""Reading of JSON that a stranger may have sent: its size is bounded before it is parsed, and each number is checked."""

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from schema.errors import AtlasError

Item = TypeVar("Item")

MOST_BYTES = 256 * 1024
MOST_DEPTH = 8
LARGEST = 2**31
"""Exclusive limit on layers, units, positions and ids."""

STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
BRACKETS = re.compile(r"[\[\]{}]")


def read_json(text: str | bytes, what: str = "interventions") -> Any:
    """Parse JSON. what: its name in messages. Raises AtlasError if it is too long or deep (before parsing), is no JSON, repeats a key, or holds NaN."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(data) > MOST_BYTES:
        raise AtlasError(f"{what} of {len(data):,} bytes were given; at most {MOST_BYTES:,} are read")
    try:
        found = data.decode("utf-8")
        require_shallow(found, what)
        return json.loads(found, object_pairs_hook=keys_once, parse_constant=no_number)
    except UnicodeDecodeError as error:
        raise AtlasError(f"{what} must be JSON in UTF-8, and byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise AtlasError(f"{what} must be JSON, and this is not: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError:
        # python reads whole numbers of some thousand digits and no more
        raise AtlasError(f"{what} hold a number with too many digits") from None


def require_shallow(text: str, what: str) -> None:
    depth = 0
    for bracket in BRACKETS.findall(STRINGS.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MOST_DEPTH:
            raise AtlasError(f"{what} are nested deeper than {MOST_DEPTH} levels, the most that is read")


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, _ in pairs if found.pop(key, pairs) is pairs)  # taken out already
        raise AtlasError(f"the key {shorten_json(twice)} is given twice")
    return found


def no_number(name: str) -> NoReturn:
    raise AtlasError(f"{name} is not a number in JSON")


def shorten_json(given: Any) -> str:
    """Write a value for a message: on one line, without control characters, and cut to at most 60 characters."""
    text = json.dumps(given, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"


def read_list(given: Any, what: str, item: str, most: int, read: Callable[[Any], Item]) -> tuple[Item, ...]:
    """Read a list of at most `most` items, each by `read`. what: a sentence on the list, for messages. item: the name of one, whose place a message says."""
    if not isinstance(given, list):
        raise AtlasError(f"{what}, not {shorten_json(given)}")
    if len(given) > most:
        raise AtlasError(f"{len(given):,} {item}s were given; at most {most:,} are read")
    found = []
    for place, one in enumerate(given, start=1):
        try:
            found.append(read(one))
        except AtlasError as error:
            raise AtlasError(f"{item} {place} of {len(given)}: {error}") from None
    return tuple(found)


def read_whole_number(given: Any, what: str, limit: int = LARGEST) -> int:
    """Read a whole number from 0 on, below a limit."""
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < limit:
        raise AtlasError(f"{what} is {shorten_json(given)}; it must be a whole number from 0 on, below {limit:,}")
    return given


def read_number(given: Any, what: str) -> float:
    """Read a finite float64; 0 for -0."""
    try:
        found = float(given) if isinstance(given, int | float) and not isinstance(given, bool) else math.nan
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise AtlasError(f"{what} is {shorten_json(given)}; it must be a finite number")
    return found + 0.0
