"""Hints on what to write instead, added to DuckDB's errors whose own messages do not say it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from itertools import islice

from atlas.questions import questions, similar_names
from schema.errors import AtlasError

MISSING_COLUMN = re.compile(r'does not have a column named "([^"]+)"|Referenced column "([^"]+)" (?:was )?not found')
MISSING_TABLE = re.compile(r"Table with name (\w+) does not exist")
REFUSED_FUNCTION = re.compile(r"^refused: the function (\w+)\.")
SHORT_INTEGER = re.compile(r"Overflow in \w+ of INT16")
MISSPELT = 0.8
"""Least similarity, up to 1, of a function's name to a question's at which the name counts as a misspelt question; read_text and head_tokens have 0.6."""

NAMED, READ = 3, 20
"""Most questions that a hint names, and most names in a statement that they are compared with."""


@contextmanager
def add_hints(sql: str) -> Iterator[None]:
    """Add a hint to an AtlasError from the block, if there is a hint."""
    try:
        yield
    except AtlasError as error:
        said = hint(sql, str(error))
        if said:
            raise type(error)(f"{error}\n{said}") from error
        raise


def hint(sql: str, message: str) -> str:
    """Find the hint for an error's message; '' if there is none."""
    if SHORT_INTEGER.search(message):
        return "Layers and ranks are numbers of 16 bits, up to 32,767: write layer::INTEGER * 1536 + neuron."
    table = MISSING_TABLE.search(message)
    if table and (asked := questions().get(table[1].lower())):
        return f"It is a question, whose arguments stand in parentheses: FROM {asked.signature}"
    refused = REFUSED_FUNCTION.search(message)
    if refused and (near := similar_names(refused[1], MISSPELT)):
        return f"No question has this name; did you mean {', '.join(near)}?"
    missing = MISSING_COLUMN.search(message)
    return of_column(missing[1] or missing[2], sql) if missing else ""


def of_column(column: str, sql: str) -> str:
    """Find the hint for a column that does not exist; '' if there is none."""
    if is_argument(column, sql):
        text = column.replace("'", "''")
        return f"Write a text in single quotes: '{text}'. Without quotes, or in double quotes, it is the name of a column."
    found = questions_with_column(column, sql)
    return f"It is a column of the question{'s' if len(found) > 1 else ''} {', '.join(found)}." if found else ""


def is_argument(name: str, sql: str) -> bool:
    """Tell whether the statement calls a question that takes a text, with `name` among the arguments."""
    calls = re.findall(rf"""\b(\w++)\s*+\([^()']*?(?<![\w.'])"?{re.escape(name)}(?![\w.'])""", sql, re.IGNORECASE)
    return any(called.lower() in questions() and any(p.type == "text" for p in questions()[called.lower()].parameters) for called in calls)


def questions_with_column(column: str, sql: str) -> list[str]:
    """Find the questions with that column, at most NAMED; those whose names are most like a table that the statement reads come first."""
    # a stranger's statement may have a hundred thousand names, or one as long as it is
    read = [found[1] for found in islice(re.finditer(r"\b(?:FROM|JOIN)\s+(\w{1,60})\b", sql, re.IGNORECASE), READ)] or [""]
    near = {q.signature: max(SequenceMatcher(None, q.name, name).ratio() for name in read) for q in questions().values() if column in q.columns}
    return sorted(near, key=lambda signature: (-near[signature], signature))[:NAMED]
