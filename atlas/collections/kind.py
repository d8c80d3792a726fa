"""Collections, as a kind of file beside an atlas."""

from importlib.resources import files
from pathlib import Path

from schema import COLLECTION_VERSION
from schema.open.kinds import Beside
from schema.terms import COLLECTION_CATALOG

COLLECTIONS = Beside(
    name=COLLECTION_CATALOG,
    version=COLLECTION_VERSION,
    label="collection_schema",
    tables=Path(str(files("schema"))) / "collections" / "tables.sql",
    folder=Path(__file__).parent,
    changed_by="atlas collection",
    told_by="atlas collection list",
    again="add their members again",
    metadata="schema.collections.tables:collection_metadata",
    # of members that were added from this model members_exist says it; others are of a model that may be larger
    is_of_one_model=False,
)
