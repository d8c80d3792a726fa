"""Collections: named sets of neurons, heads, positions and tokens that people put together, in a file beside the atlas.

members.py defines members and reads their texts from the atlas, keeping.py changes the file, filtering.py restricts a
statement to the members of a collection, bounds.py limits how much is read of a file that somebody else sent.
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
