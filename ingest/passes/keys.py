"""Keys of a corpus for `atlas retrieve`, in float16 files beside the atlas (Khandelwal et al. 2020).

A key is the state that the last FFN reads at a position. Positions before --min-index, and positions that no token follows, have none.
"""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import RecordingPass, flag
from schema.errors import AtlasError
from schema.open.lake import is_lake

if TYPE_CHECKING:
    from ingest.request import Request


class Keys(RecordingPass):
    name = "keys"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    options = (
        flag("keys", "Store the key of every position of the corpus in the folder NAME.keys, for `atlas retrieve`."),
        click.Option(
            ["--min-index"], type=click.IntRange(0), default=1, show_default=True, help="Store no key of positions before this index of their sequence."
        ),
    )
    work = "ingest.recorders.key_entries:Keys"

    def check(self, request: "Request") -> None:
        if request.lake is not None or is_lake(request.target):
            raise AtlasError(f"--keys: keys are stored in a folder beside an atlas file, but {request.target} is a lake; ingest into an atlas file instead")


PASS = Keys()
