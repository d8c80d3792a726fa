"""Experiments with an atlas's model, as a kind of file beside it."""

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from schema import EXPERIMENT_VERSION
from schema.open.kinds import Beside
from schema.terms import EXPERIMENT_CATALOG

if TYPE_CHECKING:
    from sqlalchemy import MetaData


def declared() -> "MetaData":
    from schema.experiments.tables import experiment_metadata

    return experiment_metadata()


EXPERIMENTS = Beside(
    name=EXPERIMENT_CATALOG,
    version=EXPERIMENT_VERSION,
    label="experiment_schema",
    tables=Path(str(files("schema"))) / "experiments" / "tables.sql",
    folder=Path(__file__).parent,
    changed_by="atlas experiment",
    told_by="atlas experiment list",
    again="run them again",
    declared=declared,
)
