"""What follows each token by the direct path, and how near that is to a corpus's own bigrams (Elhage et al. 2021, zero-layer transformers)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag
from ingest.passes.removal import known_k

if TYPE_CHECKING:
    import numpy as np

    from ingest.recorders.direct_path import Bigrams
    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

SHARD_TOKENS = 8192
"""Tokens of a shard."""


class DirectPath(PlannedPass):
    """One run over the vocabulary, and one a corpus over the tokens that it holds, whose bigrams are counted where the sweep has put them."""

    name = "direct_path"
    after = ("weights", "sweep")
    reads = ("position", "sequence", "document")
    is_repeatable = False
    options = (flag("direct-path", "Read what follows each token by the direct path, and compare it with the bigrams of the corpus."),)

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["direct_path"])

    def note(self, basis: Basis) -> str | None:
        from ingest.recorders.reads import bigrams

        if basis.text is None:
            return None
        if not known_k(basis):
            return "note: no direct_path of this corpus: it has no finished sweep (--triggers); ask again when it has"
        has_bigrams = len(bigrams(basis.con, basis.text.corpus_id).counts)
        return None if has_bigrams else "note: no direct_path of this corpus: none of its tokens is followed by another"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        import numpy as np

        from ingest.model.token_states import n_tokens
        from ingest.recorders.reads import bigrams
        from ingest.workers.pool import job

        settings, parts = basis.request.weights_settings(), split(np.arange(n_tokens(basis.model)))

        def of_model(run_id: int, shards: list[int]) -> "Iterable[Job]":
            return (job(run_id, i, compute_followers, token_ids=parts[i]) for i in shards)

        yield Plan(settings, [len(part) for part in parts], "tokens", of_model)
        if not known_k(basis) or basis.text is None:
            return
        corpus_id = basis.text.corpus_id
        found = bigrams(basis.con, corpus_id)
        seen, unigrams = split(np.unique(found.token_ids)), np.bincount(found.follower_ids, found.counts, basis.model.d_vocab)

        def of_corpus(run_id: int, shards: list[int]) -> "Iterable[Job]":
            return (job(run_id, i, compute_corpus, corpus_id=corpus_id, bigrams=found.of(seen[i]), unigrams=unigrams) for i in shards)

        if seen:
            yield Plan(settings, [len(part) for part in seen], "tokens", of_corpus, corpus_id)

    def rows(self, probe: Probe) -> dict[str, int]:
        """At most: few texts hold every token."""
        from ingest.model.token_states import n_tokens
        from ingest.recorders.direct_path import N_FOLLOWERS

        n = n_tokens(probe.model)
        return {"direct_path_token": n * min(N_FOLLOWERS, probe.model.d_vocab), "direct_path": min(n, probe.seen.n_positions) if probe.seen else 0}

    def seconds(self, probe: Probe) -> float:
        import numpy as np

        from ingest.recorders.direct_path import CHUNK, N_FOLLOWERS, follower_rows
        from ingest.timing import fastest

        rows = self.rows(probe)
        few = np.arange(min(CHUNK, rows["direct_path_token"] // N_FOLLOWERS))
        each = fastest(lambda: follower_rows(probe.model, few)) / len(few)
        return each * (rows["direct_path_token"] // N_FOLLOWERS + rows["direct_path"])


def split(token_ids: "np.ndarray") -> "list[np.ndarray]":
    return [token_ids[i : i + SHARD_TOKENS] for i in range(0, len(token_ids), SHARD_TOKENS)]


def compute_followers(worker: "Worker", progress: "Progress", *, token_ids: "np.ndarray") -> "Tables":
    from ingest.recorders.direct_path import follower_rows

    rows = follower_rows(worker.model, token_ids)
    progress(len(token_ids))
    return {"direct_path_token": rows}


def compute_corpus(worker: "Worker", progress: "Progress", *, corpus_id: int, bigrams: "Bigrams", unigrams: "np.ndarray") -> "Tables":
    from ingest.recorders.direct_path import corpus_rows

    rows = corpus_rows(worker.model, corpus_id, bigrams, unigrams)
    progress(len(rows))
    return {"direct_path": rows}


PASS = DirectPath()
