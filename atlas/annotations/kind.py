"""What people say of an atlas, as a kind of file beside it."""

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from schema import ANNOTATION_VERSION
from schema.open.kinds import Beside
from schema.terms import ANNOTATION_CATALOG

if TYPE_CHECKING:
    from sqlalchemy import MetaData


def declared() -> "MetaData":
    from schema.annotation_tables import annotation_metadata

    return annotation_metadata()


ANNOTATIONS = Beside(
    name=ANNOTATION_CATALOG,
    version=ANNOTATION_VERSION,
    label="annotation_schema",
    tables=Path(str(files("schema"))) / "annotation_tables.sql",
    folder=Path(__file__).parent,
    changed_by="atlas annotate",
    told_by="atlas annotate status",
    again="load its sheets again",
    declared=declared,
    hanging=(("pattern_match", "pattern_id", "pattern"),),
)
