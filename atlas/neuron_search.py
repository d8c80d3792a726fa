"""Neurons whose numbers are within ranges: one SELECT, composed from the tables' metadata, that runs in any DuckDB. No data is read here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite

from duckdb_sqlalchemy import Dialect
from sqlalchemy import REAL, ColumnElement, Float, Integer, Select, Table, and_, cast, select, true

from schema.errors import AtlasError
from schema.tables import metadata

NEURON, STATISTICS, TOKEN = (metadata(1).tables[name] for name in ("neuron", "neuron_statistics", "token"))
N, S, T = NEURON.alias("n"), STATISTICS.alias("s"), TOKEN.alias("t")


def number_columns(table: Table) -> dict[str, str]:
    """List the table's columns that hold one number and no id: name → meaning."""
    return {c.name: str(c.comment) for c in table.columns if isinstance(c.type, Integer | Float) and "references" not in c.info}


ACTIVE_SHARE = {"active_share": "n_active / n_positions: share of positions with a coefficient over 0, in [0, 1]."}

COLUMNS = {**number_columns(NEURON), **ACTIVE_SHARE, **{name: meaning for name, meaning in number_columns(STATISTICS).items() if name not in NEURON.c}}
"""Columns by which neurons are searched and ordered: name → meaning, with its unit."""

EXPRESSIONS: dict[str, ColumnElement] = {name: N.c[name] if name in NEURON.c else S.c[name] for name in COLUMNS if name != "active_share"}
EXPRESSIONS["active_share"] = (S.c.n_active / S.c.n_positions).label("active_share")
"""Column → its SQL expression. Layer and neuron are read from table neuron, because neuron_statistics is empty without a sweep."""

Range = tuple[float | None, float | None]
"""Smallest and largest value, both included; None for no bound."""


@dataclass(frozen=True)
class Search:
    """Search by ranges of columns, all of which must hold; a null is in no range.

    Rows are ordered by the column `order`, nulls last, then by corpus, layer and neuron.
    `corpus` is the corpus_id of the statistics; None gives a row for each corpus.
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)
    order: str = "value_max_prob"
    descending: bool = True
    corpus: int | None = None


def statement(search: Search) -> str:
    """Write the SELECT, with its bounds as literals.

    It returns layer, neuron, corpus_id, value_top_token and the rest of COLUMNS, one row per neuron and corpus.
    Raises AtlasError for a column that is not among COLUMNS, a bound that is not a finite number, or bounds in the wrong order.
    """
    for name in (*search.ranges, search.order):
        check_column(name)
    return str(compose_select(search).compile(dialect=Dialect(), compile_kwargs={"literal_binds": True}))


def compose_select(search: Search) -> Select:
    of_corpus = true() if search.corpus is None else S.c.corpus_id == search.corpus
    source = N.outerjoin(S, and_(N.c.layer == S.c.layer, N.c.neuron == S.c.neuron, of_corpus)).join(T, N.c.value_top_token_id == T.c.token_id)
    first = EXPRESSIONS[search.order]
    return (
        select(N.c.layer, N.c.neuron, S.c.corpus_id, T.c.text.label("value_top_token"))
        .add_columns(*(EXPRESSIONS[name] for name in COLUMNS if name not in ("layer", "neuron")))
        .select_from(source)
        .where(*(condition for name, ends in search.ranges.items() for condition in conditions(name, *ends)))
        .order_by((first.desc() if search.descending else first.asc()).nulls_last(), S.c.corpus_id, N.c.layer, N.c.neuron)
    )


def conditions(name: str, low: float | None, high: float | None) -> list[ColumnElement[bool]]:
    given = [end for end in (low, high) if end is not None]
    if not all(map(isfinite, given)):
        raise AtlasError(f"{name} from {low} to {high}: a bound is a finite number, or None for no bound")
    if given != sorted(given):
        raise AtlasError(f"{name} from {low:g} to {high:g}: this range is empty; give the smaller number first")
    column = EXPRESSIONS[name]
    return [*([column >= cast_bound(column, low)] if low is not None else []), *([column <= cast_bound(column, high)] if high is not None else [])]


def cast_bound(column: ColumnElement, end: float) -> ColumnElement | float:
    """Cast a bound to the column's own type: 0.1 in a REAL column is a little more than 0.1."""
    return cast(end, REAL) if isinstance(column.type, REAL) else end


def check_column(name: str) -> None:
    if name not in COLUMNS:
        near = get_close_matches(name, COLUMNS, n=3, cutoff=0.4)
        raise AtlasError(f"neurons have no number named '{name}'; " + (f"did you mean {', '.join(near)}?" if near else f"the names are {', '.join(COLUMNS)}"))
