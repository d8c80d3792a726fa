"""Every position: what counting predicts, by n-grams of other text of the same corpus or of another (Chen and Goodman 1998); one shard a span."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ingest.passes.base import Basis, Plan, PlannedPass, Probe
from schema.errors import AtlasError

if TYPE_CHECKING:
    import numpy as np

    from ingest.request import Request
    from ingest.text.corpora import Corpus
    from ingest.text.sequences import CutDocument
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker


class Ngram(PlannedPass):
    """It needs nothing of the model but its tokens. Documents of the corpus itself are left out of the counts, wherever else they are."""

    name = "ngram"
    after = ("weights",)
    is_repeatable = False
    options = (
        click.Option(["--ngram-split"], metavar="SPLIT", help="Predict every position by counting too, in this split of the corpus or of --ngram-corpus."),
        click.Option(["--ngram-corpus"], metavar="CORPUS", help="The corpus to count in, as --corpus names one.  [default: that of --corpus]"),
    )

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["ngram_split"] or request.options["ngram_corpus"])

    def check(self, request: "Request") -> None:
        if request.corpus is None:
            raise AtlasError("--ngram-split and --ngram-corpus need --corpus: the text that is predicted")
        if (request.options["ngram_corpus"] or request.corpus) == "-":
            raise AtlasError("--ngram-split: standard input can be read once; count in another text (--ngram-corpus FILE)")

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.recorders.kneser_ney import ORDERS
        from ingest.text.parts import documents_of_spans
        from ingest.text.sequences import bos_token
        from ingest.workers.pool import job

        if basis.text is None:
            return
        text, request, other = basis.text, basis.request, counted_corpus(basis.request)
        counts = {"corpus": other.name, "split": other.split, "revision": other.revision}
        settings = {**request.weights_settings(), "counts": counts, "orders": list(ORDERS), "shard_positions": request.shard_positions}
        bos = bos_token(basis.model.tokenizer, request.bos)

        def jobs(run_id: int, pending: list[int]) -> "Iterable[Job]":
            counted = counted_tokens(basis, other)
            for i, documents in documents_of_spans(text.seen.spans, text.documents()):
                if i in pending:
                    of = {"run_id": run_id, "corpus_id": text.corpus_id, "bos": bos, "d_vocab": basis.model.d_vocab}
                    yield job(run_id, i, compute, documents=documents, counted=counted, **of)

        yield Plan(settings, [span.n_positions for span in text.seen.spans], "positions", jobs, text.corpus_id)

    def rows(self, probe: Probe) -> dict[str, int]:
        """At most: BOS and the last token of a document have none."""
        from ingest.recorders.kneser_ney import ORDERS

        return {"ngram_prediction": len(ORDERS) * probe.seen.n_positions} if probe.seen else {}

    def seconds(self, probe: Probe) -> float:
        """Of counting as much text as is predicted, and predicting it: how much there is to count in is not known before it is read."""
        from ingest.recorders.kneser_ney import counted, scored
        from ingest.recorders.reading import n_tokens
        from ingest.timing import fastest

        if probe.seen is None:
            return 0.0
        texts = [s.token_ids for s in probe.sequences]
        # position_ids are of no account here
        each = fastest(lambda: scored(counted(texts, probe.model.d_vocab), [(ids, ids) for ids in texts])) / sum(map(n_tokens, probe.sequences))
        return each * probe.seen.n_positions


def counted_corpus(request: "Request") -> "Corpus":
    """The corpus to count in, every document of it."""
    from ingest.store.committer import work_folder

    name, split = request.options["ngram_corpus"], request.options["ngram_split"]
    # what is said of the corpus that is predicted says nothing of another
    same = {} if name is None else {"corpus": name, "config": None, "corpus_revision": None, "format": None}
    return replace(request, **same, split=split, every=1, max_documents=None).open_corpus(work_folder(request.target))


def counted_tokens(basis: Basis, other: "Corpus") -> "list[np.ndarray]":
    """token_ids of each document to count, [n]. Raises AtlasError if nothing is left of the text: what is counted must not be predicted."""
    from ingest.text.chats import render_chats
    from ingest.text.counted import counted_documents, text_digest

    tokenizer = basis.model.tokenizer
    predicted = {text_digest(d.document) for d in basis.text.documents()} if basis.text else set()
    found = list(counted_documents(render_chats(other.documents(), tokenizer, is_chat=basis.request.chat), tokenizer, predicted))
    if not found:
        raise AtlasError(
            f"corpus {other.name!r}, split '{other.split}', has no text to count in: its documents are those that are predicted. "
            "Name another split (--ngram-split) or another corpus (--ngram-corpus)"
        )
    return found


def compute(
    worker: "Worker", progress: "Progress", *, run_id: int, corpus_id: int, documents: "list[CutDocument]", counted: "list[np.ndarray]",
    bos: int | None, d_vocab: int,
) -> "Tables":  # fmt: skip
    from ingest.recorders.kneser_ney import counted as count
    from ingest.recorders.kneser_ney import scored
    from ingest.recorders.rows import text_tables
    from ingest.text.counted import read_tokens

    con = worker.kept(run_id, lambda: count(counted, d_vocab))
    rows = scored(con, [read_tokens(d, bos) for d in documents if d.sequences])
    progress(sum(len(s.token_ids) for d in documents for s in d.sequences))
    return {**text_tables(documents, corpus_id), "ngram_prediction": rows}


PASS = Ngram()
