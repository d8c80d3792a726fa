"""The state that the last FFN reads at every position that a token follows, in float16 files beside the atlas, for `atlas retrieve` (Khandelwal et
al. 2020).
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
        flag("keys", "Keep the key of every position of the corpus in the folder NAME.keys, for `atlas retrieve`."),
        click.Option(["--min-index"], type=click.IntRange(0), default=1, show_default=True, help="Keep no key of positions before this one of their sequence."),
    )
    work = "ingest.recorders.key_entries:Keys"

    def check(self, request: "Request") -> None:
        if request.lake is not None or is_lake(request.target):
            raise AtlasError(f"--keys: keys are files in a folder beside an atlas file, and {request.target} is a lake; `atlas ingest` them into a file")


PASS = Keys()
