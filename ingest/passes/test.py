"""The sentences of a suite: what each is for, where its regions lie, and what the model does otherwise in those that are compared; one shard a paradigm."""

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

import click

from ingest.passes.base import Basis, Plan, PlannedPass, Probe
from schema.errors import AtlasError

if TYPE_CHECKING:
    from ingest.model.models import Model
    from ingest.request import Request
    from ingest.text.sequences import CutDocument
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker


class Test(PlannedPass):
    name = "test"
    after = ("prediction",)
    is_repeatable = False
    options = (
        click.Option(
            ["--suite"], metavar="SUITE", multiple=True, help="Read the sentences of tests in place of a corpus; `atlas test` does."
        ),
        click.Option(["--items"], type=click.IntRange(1, 1000), default=150, show_default=True, help="Items of each paradigm that is generated."),
    )  # fmt: skip

    def is_wanted(self, request: "Request") -> bool:
        return request.is_suite

    def check(self, request: "Request") -> None:
        whole = {"--cut": request.cut == "tokens", "--document-tokens": request.document_tokens is None, "--every": request.every == 1}
        whole["--max-documents"] = request.max_documents is None
        if cut := [name for name, is_whole in whole.items() if not is_whole]:
            raise AtlasError(f"--suite: sentences of a test are read whole, and all of them; leave {cut[0]} out")

    def check_model(self, request: "Request", model: "Model") -> None:
        from ingest.text.sequences import bos_token

        if bos_token(model.tokenizer, request.bos) is None:
            raise AtlasError(f"--suite: nothing would predict the first token of a sentence, since {model.name} reads no BOS by itself; give --bos start")

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.recorders.tested import paradigm_of
        from ingest.workers.pool import job

        if basis.text is None:
            return
        text, request = basis.text, basis.request
        amounts = [sum(1 for _ in same) for _, same in groupby(text.documents(), key=paradigm_of)]

        def jobs(run_id: int, pending: list[int]) -> "Iterable[Job]":
            for i, (_, same) in enumerate(groupby(text.documents(), key=paradigm_of)):
                if i in pending:
                    yield job(run_id, i, compute, documents=list(same), run_id=run_id, corpus_id=text.corpus_id, batch_tokens=request.batch_tokens)

        yield Plan({**request.weights_settings(), "batch_size": request.batch_size}, amounts, "sentences", jobs, text.corpus_id)

    def rows(self, probe: Probe) -> dict[str, int]:
        """Of regions at most."""
        from ingest.text.suites.formulas import n_terms

        if probe.seen is None:
            return {}
        documents = list(probe.request.open_corpus(probe.request.target.parent).documents())
        paradigms = {(d.metadata["suite"], d.metadata["paradigm"]) for d in documents if d.metadata["kind"] == "pair"}
        n_regions = sum(len(d.metadata["regions"]) for d in documents if isinstance(d.metadata["regions"], dict))
        n_perturbed = sum(d.metadata["role"] == "perturbed" for d in documents)
        formulas = {(d.metadata["suite"], d.metadata["paradigm"], d.metadata["expectation"]) for d in documents if d.metadata["kind"] == "region"}
        return {
            "test_item": len(documents), "test_region": n_regions, "test_term": sum(n_terms(str(text)) for *_, text in formulas),
            "test_divergence": n_perturbed, "neuron_contrast": len(paradigms) * probe.model.n_layers * probe.model.d_ffn,
        }  # fmt: skip

    def seconds(self, probe: Probe) -> float:
        """Of reading each sentence once more."""
        import numpy as np

        from ingest.recorders.contrasts import SignedNorms
        from ingest.recorders.reading import n_tokens, read_batch
        from ingest.recorders.tested import value_norms
        from ingest.timing import fastest

        if probe.seen is None:
            return 0.0
        batch = probe.batch
        sample = np.array([s.first_position_id + n_tokens(s) - 1 for s in batch])
        heard = SignedNorms(probe.model, value_norms(probe.model))
        return fastest(lambda: list(read_batch(probe.model, [(heard, sample)], batch))) / sum(map(n_tokens, batch)) * probe.seen.n_positions


def compute(
    worker: "Worker", progress: "Progress", *, documents: "list[CutDocument]", run_id: int, corpus_id: int, batch_tokens: int
) -> "Tables":  # fmt: skip
    from ingest.recorders.rows import text_tables
    from ingest.recorders.tested import contrasted, diverged, item_rows, term_rows, value_norms

    tables = {**text_tables(documents, corpus_id), **item_rows(documents)}
    kind = documents[0].document.metadata["kind"]
    if kind == "pair":
        norms = worker.kept(run_id, lambda: value_norms(worker.model))
        return {**tables, **contrasted(worker.model, norms, documents, corpus_id, batch_tokens, progress)}
    if kind == "inv":
        return {**tables, **diverged(worker.model, documents, batch_tokens, progress)}
    progress(len(documents))
    return {**tables, **term_rows(documents, corpus_id)} if kind == "region" else tables


PASS = Test()
