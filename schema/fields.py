"""Settings as fields of frozen dataclasses with their allowed values; values from TOML, JSON or a command line are checked in one place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, get_args, get_type_hints

from schema.errors import AtlasError
from schema.reading import read_number, read_whole_number, shorten_json

WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}

LONGEST_TEXT = 1 << 16
"""Maximum number of characters of a text."""

MOST_ITEMS = 4096


@dataclass(frozen=True)
class AllowedValues:
    """Allowed values of a setting. least, most: inclusive bounds of a number. among: the allowed texts; () for any. most_items: of a list without repeats.

    read: what reads a value that is neither a scalar nor a list of these, and raises AtlasError, in words that name the setting.
    """

    help: str
    least: float | None = None
    most: float | None = None
    among: tuple[str, ...] = ()
    most_items: int | None = None
    read: Callable[[Any], Any] | None = None


def setting(
    default: Any = MISSING,
    *,
    help: str,
    least: float | None = None,
    most: float | None = None,
    among: Sequence[str] = (),
    most_items: int | None = None,
    read: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a field. Its type is int, float, str or bool, one of these or None, or a tuple of one of these; or any that `read` returns."""
    return field(default=default, metadata={"allowed": AllowedValues(help, least, most, tuple(among), len(among) or most_items, read)})


def read_fields(of: type, given: Any, where: str) -> Any:
    """Build an instance of a dataclass from a TOML table or a JSON object. where: names the object in messages.

    Raises AtlasError for an unknown key, a missing key, and a value that has the wrong type or is out of bounds.
    """
    known = {f.name: f for f in fields(of)}
    if not isinstance(given, Mapping):
        raise AtlasError(f"{where}: {shorten_json(given)} was given; it must be a table with {', '.join(known)}")
    if unknown := [key for key in given if key not in known]:
        raise AtlasError(f"{where}: {shorten_json(unknown[0])} is unknown; there are {', '.join(known) or 'no settings'}")
    if missing := [name for name, f in known.items() if f.default is MISSING and name not in given]:
        raise AtlasError(f"{where}: {missing[0]} is missing: {allowed_values(known[missing[0]]).help}")
    hints = get_type_hints(of)
    return of(**{name: value(hints[name], allowed_values(known[name]), given[name], f"{where}: {name}") for name in given})


def allowed_values(of: Field) -> AllowedValues:
    found: AllowedValues = of.metadata["allowed"]
    return found


def value(hint: Any, bounds: AllowedValues, given: Any, what: str) -> Any:
    if bounds.read is not None:
        return bounds.read(given)
    item = item_of(hint)
    if item is not None:
        if not isinstance(given, list | tuple):
            raise AtlasError(f"{what} is {shorten_json(given)}; it must be a list, each item {WORDS[item]}")
        if len(given) > MOST_ITEMS:
            raise AtlasError(f"{what} has {len(given):,} items; at most {MOST_ITEMS:,} are read")
        found = tuple(read_scalar(item, bounds, one, what) for one in given)
        if bounds.most_items is not None:
            require_each_once(found, bounds.most_items, what)
        return found
    return None if given is None and is_optional(hint) else read_scalar(scalar_of(hint), bounds, given, what)


def require_each_once(found: tuple[Any, ...], most: int, what: str) -> None:
    """Raise AtlasError for a repeated item, since its results would be computed and stored twice, and for more than `most` items."""
    if len({*found}) < len(found):
        raise AtlasError(f"{what} has {shorten_json(next(one for one in found if found.count(one) > 1))} twice: name each once")
    if len(found) > most:
        raise AtlasError(f"{what} has {len(found):,} items; at most {most:,} are computed")


def read_scalar(of: type, bounds: AllowedValues, given: Any, what: str) -> Any:
    if of is not float and (not isinstance(given, of) or (of is int and isinstance(given, bool))):
        raise AtlasError(f"{what} is {shorten_json(given)}; it must be {WORDS[of]}")
    if of is str:
        require_text(given, bounds, what)
    if of is bool or of is str:
        return given
    found: float = given if of is int else read_number(given, what)
    if (bounds.least is not None and found < bounds.least) or (bounds.most is not None and found > bounds.most):
        limits = [f"{word} {limit:,g}" for word, limit in (("at least", bounds.least), ("at most", bounds.most)) if limit is not None]
        raise AtlasError(f"{what} is {shorten_json(given)}; it must be {' and '.join(limits)} ({bounds.help})")
    return read_integer(given, what) if of is int else found


def read_integer(given: int, what: str) -> int:
    """Read a whole number of 64 bits, which may be negative."""
    return -read_whole_number(-given, what, 2**63) if given < 0 else read_whole_number(given, what, 2**63)


def require_text(given: str, bounds: AllowedValues, what: str) -> None:
    if bounds.among and given not in bounds.among:
        raise AtlasError(f"{what} is {shorten_json(given)}; it must be one of {', '.join(bounds.among)}")
    if len(given) > LONGEST_TEXT:
        raise AtlasError(f"{what} has {len(given):,} characters; at most {LONGEST_TEXT:,} are read")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise AtlasError(f"{what}: character {error.start} is half a surrogate pair (U+{ord(given[error.start]):04X}), which is not text") from None


def item_of(hint: Any) -> Any:
    """Return the type of a tuple's items, such as int for tuple[int, ...]; None if the type hint is not a tuple."""
    return get_args(hint)[0] if getattr(hint, "__origin__", None) is tuple else None


def is_optional(hint: Any) -> bool:
    return type(None) in get_args(hint)


def scalar_of(hint: Any) -> Any:
    return next(one for one in get_args(hint) if one is not type(None)) if is_optional(hint) else hint
