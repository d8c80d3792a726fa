"""The mean state of each frequent token, and how narrow the cone of states is in each layer (Ethayarajh 2019): one shard a corpus."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag

if TYPE_CHECKING:
    import numpy as np

    from ingest.request import Request
    from ingest.text.sequences import Sequence as TokenSequence
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

N_POSITIONS = 200_000
"""Positions that are read, at most: whole sequences, drawn by the seed."""


class TokenState(PlannedPass):
    name = "token_state"
    after = ("weights",)
    needs_corpus = True
    is_repeatable = False
    options = (flag("token-states", "Keep the mean state of each frequent token, and tell how narrow the cone of states is in each layer."),)

    def is_wanted(self, request: "Request") -> bool:
        return request.corpus is not None and bool(request.options["token_states"])

    def note(self, basis: Basis) -> str | None:
        is_there = basis.text is None or basis.text.seen.n_positions > basis.text.seen.n_sequences
        return None if is_there else "note: no token_state: every sequence of this corpus is one token, and states at index 0 are left out"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.text.drawn import drawn_sequences
        from ingest.workers.pool import job

        if basis.text is None or self.note(basis):
            return
        text, request = basis.text, basis.request
        n = n_sequences(text.seen.n_positions, text.seen.n_sequences)
        settings = {**request.weights_settings(), "seed": request.seed, "positions": N_POSITIONS, "batch_size": request.batch_size}

        def jobs(run_id: int, _: list[int]) -> "Iterable[Job]":
            sequences = drawn_sequences((s for d in text.documents() for s in d.sequences), request.seed, n)
            given = {"is_text": is_text(basis), "seed": request.seed, "batch_tokens": request.batch_tokens}
            yield job(run_id, 0, compute, corpus_id=text.corpus_id, sequences=sequences, **given)

        yield Plan(settings, [n], "sequences", jobs, text.corpus_id)

    def rows(self, probe: Probe) -> dict[str, int]:
        """Of token_state at most: few texts hold so many frequent tokens."""
        from ingest.recorders.token_states import LEAST, MOST_TOKENS, kept_layers

        if probe.seen is None:
            return {"token_state": 0, "layer_geometry": 0}
        n = min(MOST_TOKENS, min(probe.seen.n_positions, N_POSITIONS) // LEAST)
        return {"token_state": n * len(kept_layers(probe.model.n_layers)), "layer_geometry": probe.model.n_layers + 1}

    def seconds(self, probe: Probe) -> float:
        import numpy as np

        from ingest.recorders.token_states import chosen_of, state_tables
        from ingest.timing import fastest

        few = [s for s in probe.batch if len(s.token_ids) > 1]
        if probe.seen is None or not few:
            return 0.0
        chosen = chosen_of(few, np.ones(probe.model.d_vocab, bool), 0)
        each = fastest(lambda: state_tables(probe.model, 0, few, chosen, probe.request.batch_tokens, lambda _: None)) / len(few)
        return each * n_sequences(probe.seen.n_positions, probe.seen.n_sequences)

    def n_bytes(self, probe: Probe) -> int:
        """Sums by token, and the states that are held, in every layer."""
        from ingest.recorders.token_states import MOST_TOKENS, N_LAYERS, N_STATES

        return ((MOST_TOKENS + N_STATES) * (probe.model.n_layers + 1) * 4 + N_LAYERS * MOST_TOKENS * 8) * probe.model.d_model


def n_sequences(n_positions: int, n_sequences: int) -> int:
    """How many sequences of a text are about N_POSITIONS."""
    return max(1, min(n_sequences, n_sequences * N_POSITIONS // max(n_positions, 1)))


def is_text(basis: Basis) -> "np.ndarray":
    """Of each row of the vocabulary, and none beyond it: [at least d_vocab]."""
    import numpy as np

    found = np.zeros(max(basis.model.d_vocab, basis.model.n_embeddings), bool)
    ids = basis.con.execute("SELECT k.token_id FROM token AS k WHERE NOT k.is_special").fetchnumpy()["token_id"]
    found[np.asarray(ids, np.int64)] = True
    return found


def compute(
    worker: "Worker", progress: "Progress", *, corpus_id: int, sequences: "list[TokenSequence]", is_text: "np.ndarray", seed: int, batch_tokens: int
) -> "Tables":
    from ingest.recorders.token_states import chosen_of, state_tables

    return state_tables(worker.model, corpus_id, sequences, chosen_of(sequences, is_text, seed), batch_tokens, progress)


PASS = TokenState()
