"""Arguments of a question: matched to its parameters, and accepted only if they have the parameters' types."""

import inspect
from collections.abc import Callable, Iterable
from operator import index

from atlas.questions import Parameter, Question
from schema.errors import AtlasError

PYTHON_TYPES = {"integer": int, "bigint": int, "double": float, "text": str, "bigint[]": list[int]}


def signature(q: Question) -> inspect.Signature:
    """Build a Python signature from the question's parameters, with a polars frame as return type."""
    import polars as pl

    def parameter(p: Parameter) -> inspect.Parameter:
        default = inspect.Parameter.empty if p.is_required else p.default_value
        return inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=PYTHON_TYPES[p.type])

    return inspect.Signature([parameter(p) for p in q.parameters], return_annotation=pl.DataFrame)


MOST_BITS = 127
"""Maximum bits of a whole number without its sign: as many as DuckDB's widest integer has."""


def bind(q: Question, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
    """Bind arguments to a question's parameters, defaults filled in: name → plain Python value. Raises AtlasError, with the signature, if they do not fit."""
    try:
        bound = signature(q).bind(*args, **kwargs)
    except TypeError as error:
        raise AtlasError(f"{q.signature}: {error}") from error
    bound.apply_defaults()
    return {p.name: convert_value(q, p, bound.arguments[p.name]) for p in q.parameters}


def convert_value(q: Question, p: Parameter, value: object) -> object:
    """Convert the value to the parameter's type; None is accepted only if the default is NULL. Raises AtlasError for a value that cannot be converted."""
    if value is None:
        if p.default != "NULL":
            raise AtlasError(f"{q.signature}: {p.name} must not be None")
        return None
    convert, meaning = CONVERSIONS[p.type]
    try:
        return convert(value)
    except TypeError as error:
        raise AtlasError(f"{q.signature}: {p.name} must be {meaning}, not {value!r}") from error
    except OverflowError as error:
        # Python refuses to write thousands of digits, a message's too
        raise AtlasError(f"{q.signature}: {p.name} must be {meaning} of at most {MOST_BITS} bits, and the given number has more") from error


def to_integer(value: object) -> int:
    """Convert an integer of Python or numpy to int; a boolean raises TypeError."""
    if isinstance(value, bool):
        raise TypeError
    number = index(value)  # type: ignore[arg-type]
    if number.bit_length() > MOST_BITS:
        raise OverflowError
    return number


def to_float(value: object) -> float:
    """Convert a number of Python or numpy to float; a boolean raises TypeError."""
    if isinstance(value, bool | str):
        raise TypeError
    return float(value)  # type: ignore[arg-type]


def to_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    try:
        value.encode()
    except UnicodeEncodeError as error:
        # bytes of the command line that are no UTF-8, or half a surrogate pair
        raise TypeError from error
    return value


def to_integers(value: object) -> list[int]:
    if not isinstance(value, Iterable) or isinstance(value, str):
        raise TypeError
    return [to_integer(v) for v in value]


CONVERSIONS: dict[str, tuple[Callable[[object], object], str]] = {
    "integer": (to_integer, "a whole number"),
    "bigint": (to_integer, "a whole number"),
    "double": (to_float, "a number"),
    "text": (to_text, "text"),
    "bigint[]": (to_integers, "a list of whole numbers"),
}
