"""A second kind of file beside an atlas."""

from pathlib import Path

# by its old name, as distributions have it that were made for an earlier release
from schema.beside import Beside

FOLDER = Path(__file__).parent
TRIALS = Beside(
    name="trials",
    version=3,
    label="trial_schema",
    tables=FOLDER / "tables.sql",
    folder=FOLDER,
    changed_by="atlas try",
    told_by="atlas try status",
    again="try again",
)
