"""How well a model of attention alone predicts with paths through few of its heads (Elhage et al. 2021, term importance): one shard a corpus."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, Text, flag
from schema.errors import AtlasError

if TYPE_CHECKING:
    import numpy as np

    from ingest.model.models import Model
    from ingest.request import Request
    from ingest.text.sequences import Sequence as TokenSequence
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

N_SEQUENCES = 256
"""Sequences that are read, drawn by the seed: 65,000 predictions in contexts of 256, whose mean is good to about 0.01 nats."""


class TermLoss(PlannedPass):
    name = "term_loss"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    reads_heads = True
    options = (flag("term-loss", "Tell how well a model of attention alone predicts with paths through none, one or more of its heads."),)

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and bool(request.options["term_loss"])

    def check_model(self, request: "Request", model: "Model") -> None:
        """An FFN is no sum over paths: held as it is, it would bring to the direct path what heads had told it, and with less of it before it, it
        would do what it never does."""
        from ingest.recorders.term_losses import writes_by_ffn

        if (layer := writes_by_ffn(model)) is not None:
            raise AtlasError(
                f"--term-loss: {model.name} has FFNs that write (layer {layer}), and what they write is no sum over paths through heads; "
                "it is told of models of attention alone, such as attention-2l-sotu"
            )

    def note(self, basis: Basis) -> str | None:
        is_there = basis.text is None or basis.text.seen.n_positions > basis.text.seen.n_sequences
        return None if is_there else "note: no term_loss: every sequence of this corpus is one token, and none is predicted"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.workers.pool import job

        if basis.text is None or self.note(basis):
            return
        text, request = basis.text, basis.request
        settings = {**request.weights_settings(), "seed": request.seed, "sequences": N_SEQUENCES, "batch_size": request.batch_size}

        def jobs(run_id: int, _: list[int]) -> "Iterable[Job]":
            sequences, counts = sampled(text, request.seed, basis.model.d_vocab)
            yield job(run_id, 0, compute, corpus_id=text.corpus_id, sequences=sequences, counts=counts, batch_tokens=request.batch_tokens)

        yield Plan(settings, [min(N_SEQUENCES, text.seen.n_sequences)], "sequences", jobs, text.corpus_id)

    def rows(self, probe: Probe) -> dict[str, int]:
        """The unigram, the model, paths of each length, and two of each layer."""
        return {"term_loss": 3 * probe.model.n_layers + 3 if probe.seen else 0}

    def seconds(self, probe: Probe) -> float:
        import numpy as np

        from ingest.recorders.term_losses import term_rows
        from ingest.timing import fastest

        few = [s for s in probe.batch if len(s.token_ids) > 1]
        if probe.seen is None or not few:
            return 0.0
        counts = np.ones(probe.model.d_vocab)
        each = fastest(lambda: term_rows(probe.model, 0, few, counts, probe.request.batch_tokens, lambda _: None)) / len(few)
        return each * min(N_SEQUENCES, probe.seen.n_sequences)


def sampled(text: Text, seed: int, d_vocab: int) -> "tuple[list[TokenSequence], np.ndarray]":
    """The sequences of the sample, those of one token left out, and how often each token is predicted in the whole text, [d_vocab]; one pass over it."""
    import numpy as np

    from ingest.text.drawn import drawn_sequences

    counts = np.zeros(d_vocab, np.int64)

    def counted() -> "Iterable[TokenSequence]":
        for s in (s for document in text.documents() for s in document.sequences):
            np.add.at(counts, s.token_ids[1:], 1)
            yield s

    return drawn_sequences(counted(), seed, N_SEQUENCES), counts


def compute(worker: "Worker", progress: "Progress", *, corpus_id: int, sequences: "list[TokenSequence]", counts: "np.ndarray", batch_tokens: int) -> "Tables":
    from ingest.recorders.term_losses import term_rows

    return {"term_loss": term_rows(worker.model, corpus_id, sequences, counts, batch_tokens, progress)}


PASS = TermLoss()
