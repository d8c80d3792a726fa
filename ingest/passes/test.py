"""Tests of a suite: the role and regions of each sentence, and how neurons and predictions differ between compared sentences; one shard per paradigm."""

from typing import TYPE_CHECKING

import click

from ingest.passes.base import PlannedPass
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.request import Request


class Test(PlannedPass):
    name = "test"
    after = ("prediction",)
    is_repeatable = False
    options = (
        click.Option(
            ["--suite"], metavar="SUITE", multiple=True, help="Read this suite's sentences instead of a corpus, as `atlas test` does."
        ),
        click.Option(["--items"], type=click.IntRange(1, 1000), default=150, show_default=True, help="Items of each generated paradigm."),
    )  # fmt: skip
    work = "ingest.recorders.suite_rows:Test"

    def is_wanted(self, request: "Request") -> bool:
        return request.is_suite

    def check(self, request: "Request") -> None:
        whole = {"--cut": request.cut == "tokens", "--document-tokens": request.document_tokens is None, "--every": request.every == 1}
        whole["--max-documents"] = request.max_documents is None
        if cut := [name for name, is_whole in whole.items() if not is_whole]:
            raise AtlasError(f"--suite: all sentences of a test are read, and each as a whole; leave {cut[0]} out")


PASS = Test()
