"""Tables and numbers as the document prints them."""

from collections.abc import Sequence

TIMES = (("years", 365 * 86400), ("days", 86400), ("h", 3600), ("min", 60), ("s", 1))
SIZES = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
COUNTS = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    rule = ["---", *(["---:"] * (len(heads) - 1))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


def rounded(x: float) -> str:
    """Two digits, or all before the point."""
    return f"{x:,.0f}" if x >= 10 else f"{x:.1f}"


def of_unit(x: float, units: Sequence[tuple[str, float]]) -> str:
    """In the largest unit of which it is one or more, in the smallest where it is less than any."""
    name, size = next(((n, s) for n, s in units if x >= s), units[-1])
    return f"{rounded(x / size)} {name}".strip()


def time(seconds: float) -> str:
    return of_unit(seconds, TIMES)


def size(n_bytes: float) -> str:
    return of_unit(n_bytes, SIZES)


def count(n: float) -> str:
    return of_unit(n, COUNTS)
