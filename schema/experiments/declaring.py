"""How tables of experiments are declared, and the columns that many of them share."""

from collections.abc import Callable

from sqlalchemy import REAL, Column, Integer, MetaData, Table
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from schema.columns import column

Declare = Callable[..., Table]
"""`declared`, its metadata given."""


def declared(m: MetaData, name: str, *items: SchemaItem, comment: str, grain: tuple[str, ...]) -> Table:
    """A table, and what audits are made from. No pass fills it."""
    return Table(name, m, *items, comment=comment, info={"grain": grain, "filled_by": "", "is_merged": False})


def experiment_id() -> Column:
    return column("experiment_id", Integer, "The experiment.", "experiment.experiment_id")


def arm_id() -> Column:
    return column("arm_id", Integer, "The arm, counted from 0 in its experiment.")


def prompt_id() -> Column:
    return column("prompt_id", Integer, "The prompt, counted from 0 in its experiment.")


def index(comment: str = "Place of the token in the prompt, from 0; BOS is one.", null: bool = False) -> Column:
    return column("index", Integer, comment, null=null)


def maybe(name: str, comment: str, kind: TypeEngine | type[TypeEngine] = REAL) -> Column:
    """A column that is null where it was not measured, or has no meaning."""
    return column(name, kind, comment, null=True)
