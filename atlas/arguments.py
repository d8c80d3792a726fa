"""What a caller passes to a question: matched to its parameters, and taken only if it is what the parameter means."""

import inspect
from collections.abc import Callable, Iterable
from operator import index

from atlas.questions import Parameter, Question
from schema.errors import AtlasError

PYTHON_TYPES = {"integer": int, "bigint": int, "double": float, "text": str, "bigint[]": list[int]}


def signature(q: Question) -> inspect.Signature:
    """Build a Python signature from the question's parameters; it returns a frame."""
    import polars as pl

    def parameter(p: Parameter) -> inspect.Parameter:
        default = inspect.Parameter.empty if p.is_required else p.default_value
        return inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=PYTHON_TYPES[p.type])

    return inspect.Signature([parameter(p) for p in q.parameters], return_annotation=pl.DataFrame)


MOST_BITS = 127
"""Of a whole number: those of DuckDB's widest."""


def bind(q: Question, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
    """Bind arguments to a question's parameters, by name, defaults filled in, as plain Python values. Raises AtlasError with the signature."""
    try:
        bound = signature(q).bind(*args, **kwargs)
    except TypeError as error:
        raise AtlasError(f"{q.signature}: {error}") from error
    bound.apply_defaults()
    return {p.name: convert_value(q, p, bound.arguments[p.name]) for p in q.parameters}


def convert_value(q: Question, p: Parameter, value: object) -> object:
    """Convert the value to the parameter's type; None is taken only where the default is NULL. Raises AtlasError for what has no such value."""
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
        raise AtlasError(f"{q.signature}: {p.name} must be {meaning}, and this one has more than {MOST_BITS} bits") from error


def to_integer(value: object) -> int:
    """Convert an integer of Python or numpy to int; True is no number here."""
    if isinstance(value, bool):
        raise TypeError
    number = index(value)  # type: ignore[arg-type]
    if number.bit_length() > MOST_BITS:
        raise OverflowError
    return number


def to_float(value: object) -> float:
    """Convert a number of Python or numpy to float; True is no number here."""
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
