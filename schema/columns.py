"""The parts that tables are made of: what a table must say of itself, DuckDB's own column types, and the columns that many tables share."""

from dataclasses import dataclass

from sqlalchemy import REAL, BigInteger, CheckConstraint, Column, Integer, MetaData, SmallInteger, String, Table
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine, UserDefinedType

from schema.errors import AtlasError


@dataclass(frozen=True)
class FilledBy:
    """The pass that fills a table, by its name, and the options of `atlas ingest FILE` that ask for it.

    `counted` is a SELECT of how many `unit`s run `r` of it went over, for whoever shows its speed; '' where nobody does.
    """

    name: str
    asked_by: str
    unit: str = ""
    counted: str = ""


REGISTRATION = FilledBy("", "")
"""No pass: every ingest fills it, of its model and its corpus."""

ROUNDING = 1e-5

SAID = frozenset({"grain", "sort", "filled_by", "asked_by", "unit", "counted", "bytes_a_row", "is_merged"})


def table(
    name: str,
    m: MetaData,
    *items: SchemaItem,
    comment: str,
    grain: tuple[str, ...],
    sort: tuple[str, ...],
    filled_by: FilledBy,
    bytes_a_row: float,
    is_merged: bool = False,
) -> Table:
    """Declare a table of an atlas, and what audits, dry runs and messages are made from.

    `grain` names the columns that identify a row; `sort` the order rows are written in at publication (zone maps replace indexes: no secondary index, ever).
    `bytes_a_row` is what a row takes in a published file, measured; 0 where rows are few, or as long as a text. `is_merged`: rows of several shards become
    one, so that the manifest does not count them.
    """
    by = {"filled_by": filled_by.name, "asked_by": filled_by.asked_by, "unit": filled_by.unit, "counted": filled_by.counted}
    return Table(name, m, *items, comment=comment, info={"grain": grain, "sort": sort, **by, "bytes_a_row": bytes_a_row, "is_merged": is_merged})


def check_tables(m: MetaData) -> None:
    """Raise AtlasError for a table that was not made by `table`, or has no comment."""
    for t in m.tables.values():
        if missing := sorted(SAID - t.info.keys()):
            raise AtlasError(f"the table {t.name} does not say its {', '.join(missing)}: declare it by schema.columns.table")
        if silent := [c.name for c in t.columns if not c.comment]:
            raise AtlasError(f"the table {t.name} has columns without a comment: {', '.join(silent)}")


class Vector(UserDefinedType):
    """FLOAT[n]: a fixed-size DuckDB array, so that array_inner_product and its kin apply."""

    cache_ok = True

    def __init__(self, n: int) -> None:
        self.n = n

    def get_col_spec(self, **_: object) -> str:
        return f"FLOAT[{self.n}]"


class Counts(UserDefinedType):
    """BIGINT[]: a list of counts."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "BIGINT[]"


class TokenIds(UserDefinedType):
    """INTEGER[]: a list of token_ids."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "INTEGER[]"


class Levels(UserDefinedType):
    """TINYINT[]: a list of numbers from -127 to 127, in units that another column of the row gives."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TINYINT[]"


class Json(UserDefinedType):
    """JSON text that DuckDB's ->> reads."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "JSON"


def column(name: str, kind: TypeEngine | type[TypeEngine], comment: str, references: str | None = None, null: bool = False) -> Column:
    info = {"references": references} if references else {}
    return Column(name, kind, comment=comment, info=info, nullable=null, autoincrement=False)


def probability(name: str, comment: str, null: bool = False, kind: type[TypeEngine] = REAL) -> Column:
    """Declare a number in [0, 1]; a softmax in float32 can pass 1 by a rounding."""
    return bounded(name, comment, null, (0, 1 + ROUNDING), kind)


def nonnegative(name: str, comment: str, null: bool = False, kind: type[TypeEngine] = REAL) -> Column:
    """Declare a number that is not below 0 but by a rounding."""
    return bounded(name, comment, null, (-ROUNDING, None), kind)


def bounded(name: str, comment: str, null: bool, bounds: tuple[float, float | None], kind: type[TypeEngine]) -> Column:
    found = column(name, kind, comment, null=null)
    found.info["bounds"] = bounds
    return found


def added(
    by: FilledBy, name: str, type_: TypeEngine | type[TypeEngine], comment: str, references: str | None = None, bounds: tuple[float, float] | None = None
) -> Column:  # fmt: skip
    """Declare a column that a release added to what a pass records: null in rows of earlier runs, absent from atlases that no later run has filled."""
    found = column(name, type_, f"{comment}; null where the {by.name} is older than the column.", references, null=True)
    found.info["filled_by"] = by.name
    if bounds is not None:
        found.info["bounds"] = bounds
    return found


INTERVAL_NOTE = "How the interval was made, or why there is none; null where it is the percentile bootstrap of an earlier release."
"""Of a column beside every interval over clusters."""


def interval_columns(by: FilledBy, clusters: str) -> tuple[Column, Column]:
    """Declare what stands beside an interval over clusters: how many these are, and how it was made."""
    note = column("interval_note", String, INTERVAL_NOTE, null=True)
    note.info["filled_by"] = by.name
    return added(by, "n_clusters", Integer, f"{clusters}, which the interval is over"), note


def layer() -> Column:
    return column("layer", SmallInteger, "Transformer block, counted from 0.")


def neuron() -> Column:
    return column("neuron", Integer, "FFN hidden unit of the layer, counted from 0; its address is L<layer>N<neuron>.")


def head() -> Column:
    return column("head", SmallInteger, "Attention head of the layer, counted from 0; its address is L<layer>H<head>.")


def corpus_id() -> Column:
    return column("corpus_id", Integer, "The corpus the number was taken over.", "corpus.corpus_id")


def position_id() -> Column:
    return column("position_id", BigInteger, "The token occurrence.", "position.position_id")


def one_of(name: str, words: tuple[str, ...]) -> CheckConstraint:
    """Constrain a column to these words; an argument of its name takes no other."""
    return CheckConstraint(f"{name} IN ({', '.join(repr(w) for w in words)})", info={"words": {name: words}})
