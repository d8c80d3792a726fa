"""Collections: named sets of neurons, heads, positions and tokens that people put together, in a file beside the atlas.

members.py says what can be one and what the atlas shows of it, keeping.py changes the file, filtering.py narrows a
statement to what is in one, bounds.py says how much is read of a file that was sent.
"""

from pathlib import Path

from schema.open.kinds import Companion

COLLECTIONS = Companion(
    name="collections",
    version=1,
    label="collection_schema",
    tables=Path(__file__).with_name("tables.sql"),
    folder=Path(__file__).parent,
    changed_by="atlas collection",
    told_by="atlas collection list",
    again="add their members again",
    # of members that were added from this model members_exist says it; others are of a model that may be larger
    is_of_one_model=False,
)
