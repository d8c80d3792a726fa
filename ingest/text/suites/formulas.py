"""Parser of SyntaxGym's formulas over the surprisals of regions (Gauthier et al. 2020), into sums that SQL can add up. Nothing is evaluated here.

    [(2;%mismatch%) - (2;%match%)] > 0 & (3;%match%) < (3;%mismatch%)

A formula becomes a list of clauses that must all hold. A clause is a list of comparisons of which at least one must hold. A comparison states that a
weighted sum is above 0, or equal to 0.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from schema.errors import AtlasError

TOKEN = re.compile(r"\s*(?:\(\s*(?P<region>\d+|\*)\s*;\s*%(?P<role>[^%]+)%\s*\)|(?P<number>\d+(?:\.\d+)?)|(?P<sign>[][()<>=&|+-]))")

CLOSED_BY = {"(": ")", "[": "]"}

MOST_CHARS, MOST_CLAUSES, DEEPEST = 5_000, 100, 50
"""Limits on a formula: its characters, the clauses that it expands to, and the depth of its brackets."""

Place = tuple[str, str]
"""Condition and region whose surprisal is added, or CONSTANT."""

CONSTANT: Place = ("", "")


@dataclass(frozen=True)
class Comparison:
    """A condition on a weighted sum of surprisals and a constant, in nats. operator: `greater` if the sum must be above 0, `equal` if it must be 0."""

    operator: str
    weights: Mapping[Place, float]


Sum = dict[Place, float]
Clauses = list[tuple[Comparison, ...]]


def parse_formula(where: str, text: str) -> Clauses:
    """Parse a formula into its clauses. Raises AtlasError, in one line, for anything that is not a formula."""
    if len(text) > MOST_CHARS:
        raise AtlasError(f"{where}: a formula of {len(text):,} characters, and {MOST_CHARS:,} are read at most")
    reader = Reader(where, text)
    found = reader.parse_or(0)
    if reader.place < len(reader.tokens):
        raise reader.syntax_error()
    if isinstance(found, dict):
        raise AtlasError(f"{where}: {text!r} compares nothing; a formula needs <, > or =")
    return found


class Reader:
    """Parser that reads the tokens of one formula from left to right. From loosest to tightest, the operators are |, &, comparisons, + and -."""

    def __init__(self, where: str, text: str) -> None:
        self.where, self.text, self.place, self.tokens = where, text, 0, list[re.Match[str]]()
        end, text = 0, text.rstrip()
        while end < len(text):
            found = TOKEN.match(text, end)
            if found is None:
                raise AtlasError(f"{where}: {self.text!r} cannot be read from character {end} on; a region is (number;%condition%)")
            self.tokens.append(found)
            end = found.end()

    def sign(self) -> str | None:
        """Return the next token if it is a sign, without consuming it; else None."""
        return self.tokens[self.place]["sign"] if self.place < len(self.tokens) else None

    def take(self, *signs: str) -> str | None:
        """Consume the next token and return it if it is one of these signs; else return None."""
        found = self.sign()
        if found not in signs:
            return None
        self.place += 1
        return found

    def syntax_error(self) -> AtlasError:
        at = len(self.text)
        if self.place < len(self.tokens):
            token = self.tokens[self.place]
            at = token.end() - len(token[0].lstrip())
        return AtlasError(f"{self.where}: {self.text!r} is no formula from character {at} on")

    def parse_or(self, depth: int) -> Sum | Clauses:
        found = self.parse_and(depth)
        while self.take("|"):
            sides = self.require_clauses(found), self.require_clauses(self.parse_and(depth))
            if len(sides[0]) * len(sides[1]) > MOST_CLAUSES:
                raise AtlasError(f"{self.where}: {self.text!r} comes to more than {MOST_CLAUSES} clauses; divide it into several formulas")
            found = [one + other for one, other in product(*sides)]
        return found

    def parse_and(self, depth: int) -> Sum | Clauses:
        found = self.parse_comparison(depth)
        while self.take("&"):
            found = self.require_clauses(found) + self.require_clauses(self.parse_comparison(depth))
        return found

    def parse_comparison(self, depth: int) -> Sum | Clauses:
        found = self.parse_sum(depth)
        if (sign := self.take("<", ">", "=")) is None:
            return found
        left, right = self.require_sum(found), self.require_sum(self.parse_sum(depth))
        return [(Comparison("equal" if sign == "=" else "greater", add_sums(right, left, -1) if sign == "<" else add_sums(left, right, -1)),)]

    def parse_sum(self, depth: int) -> Sum | Clauses:
        found = self.parse_atom(depth)
        while sign := self.take("+", "-"):
            found = add_sums(self.require_sum(found), self.require_sum(self.parse_atom(depth)), 1 if sign == "+" else -1)
        return found

    def parse_atom(self, depth: int) -> Sum | Clauses:
        if depth > DEEPEST:
            raise AtlasError(f"{self.where}: the formula has brackets nested deeper than {DEEPEST}")
        if opening := self.take(*CLOSED_BY):
            found = self.parse_or(depth + 1)
            if not self.take(CLOSED_BY[opening]):
                raise self.syntax_error()
            return found
        if self.place == len(self.tokens) or self.sign() is not None:
            raise self.syntax_error()
        token = self.tokens[self.place]
        self.place += 1
        return {CONSTANT: float(token["number"])} if token["number"] else {(token["role"], token["region"]): 1.0}

    def require_sum(self, found: Sum | Clauses) -> Sum:
        if isinstance(found, dict):
            return found
        raise AtlasError(f"{self.where}: {self.text!r} adds or compares the result of a comparison; only surprisals are added and compared")

    def require_clauses(self, found: Sum | Clauses) -> Clauses:
        if isinstance(found, dict):
            raise AtlasError(f"{self.where}: {self.text!r} joins by & or | something that is no comparison")
        return found


def n_terms(formulas: str) -> int:
    """Count the terms of formulas, given one per line: the places that have a weight, counted in each comparison."""
    clauses = [clause for text in formulas.split("\n") for clause in parse_formula("formula", text)]
    return sum(len(comparison.weights) for clause in clauses for comparison in clause)


def add_sums(one: Sum, other: Sum, times: int) -> Sum:
    return {place: one.get(place, 0.0) + times * other.get(place, 0.0) for place in one | other}
