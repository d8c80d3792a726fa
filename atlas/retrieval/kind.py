"""Retrievals, as a kind of file beside an atlas."""

from importlib.resources import files
from pathlib import Path

from schema import RETRIEVAL_VERSION
from schema.open.kinds import Beside
from schema.terms import RETRIEVAL_CATALOG

RETRIEVALS = Beside(
    name=RETRIEVAL_CATALOG,
    version=RETRIEVAL_VERSION,
    label="retrieval_schema",
    tables=Path(str(files("schema"))) / "retrieval" / "tables.sql",
    folder=Path(__file__).parent,
    changed_by="atlas retrieve",
    told_by="atlas ask knn_result",
    again="run `atlas retrieve` again",
    metadata="schema.retrieval.tables:retrieval_metadata",
)
