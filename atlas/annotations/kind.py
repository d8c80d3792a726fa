"""What people say of an atlas, as a kind of file beside it."""

from importlib.resources import files
from pathlib import Path

from schema import ANNOTATION_VERSION
from schema.open.kinds import Beside
from schema.terms import ANNOTATION_CATALOG

ANNOTATIONS = Beside(
    name=ANNOTATION_CATALOG,
    version=ANNOTATION_VERSION,
    label="annotation_schema",
    tables=Path(str(files("schema"))) / "annotation_tables.sql",
    folder=Path(__file__).parent,
    changed_by="atlas annotate",
    told_by="atlas annotate status",
    again="load its sheets again",
    metadata="schema.annotation_tables:annotation_metadata",
    hanging=(("pattern_match", "pattern_id", "pattern"),),
)
