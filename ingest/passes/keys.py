"""Every position: the state that the last FFN reads, kept in files beside the atlas for `atlas retrieve` (Khandelwal et al. 2020)."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ingest.passes.base import Basis, Probe, Recording, RecordingPass, Text, flag
from ingest.passes.sweep import PASS as SWEEP
from schema.errors import AtlasError
from schema.key_files import KEY_SITE, keys_folder
from schema.open.lake import is_lake

if TYPE_CHECKING:
    from ingest.recorders.key_entries import KeyRecorder
    from ingest.request import Request
    from ingest.workers.worker import Worker


class Keys(RecordingPass):
    name = "keys"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    options = (
        flag("keys", "Keep the key of every position of the corpus in the folder NAME.keys, for `atlas retrieve`."),
        click.Option(["--min-index"], type=click.IntRange(0), default=1, show_default=True, help="Keep no key of positions before this one of their sequence."),
    )

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["keys"])

    def check(self, request: "Request") -> None:
        if request.lake is not None or is_lake(request.target):
            raise AtlasError(f"--keys: keys are files in a folder beside an atlas file, and {request.target} is a lake; `atlas ingest` them into a file")

    def recording(self, basis: Basis, text: Text) -> Recording:
        from ingest.store.lost_keys import remove_drafts, take_back_lost
        from ingest.store.register import run_with

        request = basis.request
        settings = {**request.weights_settings(), "batch_size": request.batch_size, "shard_positions": request.shard_positions}
        settings |= {"key_site": KEY_SITE, "min_index": request.options["min_index"]}
        folder = keys_folder(request.target).resolve()
        remove_drafts(folder)
        if (run_id := run_with(basis.con, self.name, text.corpus_id, settings)) is not None:
            take_back_lost(basis.con, folder, text.corpus_id, run_id, text.seen.spans)
        of = {"folder": folder, "corpus_id": text.corpus_id, "min_index": request.options["min_index"]}
        return Recording(settings, lambda _: partial(key_recorder, **of))

    def rows(self, probe: Probe) -> dict[str, int]:
        return {"key_file": len(probe.seen.spans)} if probe.seen else {}

    def seconds(self, probe: Probe) -> float:
        """Of the forward passes, where no sweep reads the text: what it adds to them is a copy."""
        from ingest.recorders.reading import n_tokens, read_batch
        from ingest.timing import fastest

        if probe.seen is None or SWEEP.is_wanted(probe.request):
            return 0.0
        batch = probe.batch
        return fastest(lambda: list(read_batch(probe.model, [], batch))) / sum(map(n_tokens, batch)) * probe.seen.n_positions

    def n_bytes(self, probe: Probe) -> int:
        """The keys of a shard, and they once more in order."""
        return max((2 * 2 * span.n_positions * probe.model.d_model for span in probe.seen.spans), default=0) if probe.seen else 0


def key_recorder(worker: "Worker", folder: Path, corpus_id: int, min_index: int) -> "KeyRecorder":
    from ingest.recorders.key_entries import KeyRecorder

    return KeyRecorder(worker.model, folder, corpus_id, min_index)


PASS = Keys()
