"""The parts that tables are made of: DuckDB's own column types, and the columns that many tables share."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, SmallInteger
from sqlalchemy.types import TypeEngine, UserDefinedType


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


def added(kind: str, name: str, type_: TypeEngine | type[TypeEngine], comment: str, references: str | None = None) -> Column:
    """A column that a release added to what runs of a kind record: null in rows of earlier runs, and absent from atlases that no later run has filled."""
    found = column(name, type_, f"{comment}; null where the {kind} is older than the column.", references, null=True)
    found.info["filled_by"] = kind
    return found


def layer() -> Column:
    return column("layer", SmallInteger, "Transformer block, counted from 0.")


def neuron() -> Column:
    return column("neuron", Integer, "FFN hidden unit of the layer, counted from 0; its address is L<layer>N<neuron>.")


def corpus_id() -> Column:
    return column("corpus_id", Integer, "The corpus the number was taken over.", "corpus.corpus_id")


def position_id() -> Column:
    return column("position_id", BigInteger, "The token occurrence.", "position.position_id")


def one_of(name: str, words: tuple[str, ...]) -> CheckConstraint:
    return CheckConstraint(f"{name} IN ({', '.join(repr(w) for w in words)})")
