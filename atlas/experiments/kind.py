"""Experiments with an atlas's model, as a kind of file beside it."""

from importlib.resources import files
from pathlib import Path

from schema import EXPERIMENT_VERSION
from schema.open.kinds import Beside
from schema.terms import EXPERIMENT_CATALOG

EXPERIMENTS = Beside(
    name=EXPERIMENT_CATALOG,
    version=EXPERIMENT_VERSION,
    label="experiment_schema",
    tables=Path(str(files("schema"))) / "experiments" / "tables.sql",
    folder=Path(__file__).parent,
    changed_by="atlas experiment",
    told_by="atlas experiment list",
    again="run them again",
    metadata="schema.experiments.tables:experiment_metadata",
)
